"""One method for each operation: who asks, what the service does, and the answer as a message."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from sfumato.errors import BadInput
from sfumato.reports import certificate_file
from sfumato.serve.auth.trust_policy import Policy
from sfumato.serve.grpc import grpc_messages as made
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.bucket_calls import BucketCalls
from sfumato.serve.grpc.call_base import CALLER, address_of_peer, idempotency_key
from sfumato.serve.grpc.grpc_uploads import asked_first, uploaded
from sfumato.serve.grpc.job_calls import JobCalls
from sfumato.serve.grpc.sfumato_pb2_grpc import SfumatoServicer
from sfumato.serve.jobs.sync_executor import LATE_PLAN, late_release
from sfumato.serve.request_files import MOST_WORDS

__all__ = ["Servicer", "address_of_peer"]


class Servicer(BucketCalls, JobCalls, SfumatoServicer):
    """The operations of a service; others are :class:`JobCalls` and :class:`BucketCalls`."""

    async def Me(self, request: pb.MeRequest, context: Any) -> pb.Caller:
        """Who asks."""
        return made.caller_message(CALLER.get())

    # Budgets

    async def OpenBudget(self, request: pb.NewBudget, context: Any) -> pb.Budget:
        """Open a budget."""
        caller = CALLER.get()
        return made.budget_message(
            await self._done(self._service.open_budget, caller, **made.new_budget(request))
        )

    async def ListBudgets(self, request: pb.ListBudgetsRequest, context: Any) -> AsyncIterator[pb.Budget]:
        """All budgets that the key may see."""
        for one in await self._done(self._service.budgets, CALLER.get()):
            yield made.budget_message(one)

    async def GetBudget(self, request: pb.DatasetRequest, context: Any) -> pb.Budget:
        """What a dataset may still spend."""
        caller = CALLER.get()
        return made.budget_message(await self._done(self._service.budget, caller, request.dataset))

    async def ListHistory(self, request: pb.DatasetRequest, context: Any) -> AsyncIterator[pb.Document]:
        """Every entry, oldest first."""
        caller = CALLER.get()
        for one in await self._done(self._service.history, caller, request.dataset):
            yield made.document(one)

    # Releases

    async def Plan(self, request_iterator: AsyncIterator[pb.FilePart], context: Any) -> pb.Document:
        """What a release would promise and cost."""
        caller = CALLER.get()
        file = await asked_first(request_iterator, self._seconds)
        asked = made.asked_of(file.asked)
        with ExitStack() as brought:
            place = await uploaded(
                self._service, file.name, request_iterator, self._seconds, brought, direct=True
            )
            work = partial(self._service.plan, caller, asked, place, file.dataset)
            found = await self._service.direct.done(caller.tenant, work, brought.pop_all(), late=LATE_PLAN)
        return made.document(found)

    async def Protect(
        self, request_iterator: AsyncIterator[pb.FilePart], context: Any
    ) -> AsyncIterator[pb.ReleasedPart]:
        """Release a file."""
        caller = CALLER.get()
        key = idempotency_key(context)
        file = await asked_first(request_iterator, self._seconds)
        asked = made.asked_of(file.asked)
        with ExitStack() as brought:
            place = await uploaded(
                self._service, file.name, request_iterator, self._seconds, brought, direct=True
            )
            work = partial(self._service.protect, caller, asked, place, file.dataset, request=key)
            late = late_release(key)
            done = await self._service.direct.done(caller.tenant, work, brought.pop_all(), late=late)
        async for part in self._parts(done):
            yield part

    async def ListReleases(self, request: pb.ListReleasesRequest, context: Any) -> AsyncIterator[pb.Release]:
        """A page of releases."""
        caller = CALLER.get()
        for one in await self._done(self._service.releases, caller, **made.page_of(request)):
            yield made.release_message(one)

    async def GetRelease(self, request: pb.ReleaseRequest, context: Any) -> pb.Release:
        """One release."""
        return made.release_message(await self._released(request))

    async def GetContent(self, request: pb.ReleaseRequest, context: Any) -> AsyncIterator[pb.ReleasedPart]:
        """One release and its file."""
        caller = CALLER.get()
        async for part in self._parts(await self._done(self._service.content, caller, request.id)):
            yield part

    async def DeleteRelease(self, request: pb.ReleaseRequest, context: Any) -> pb.Release:
        """Delete the file of a release."""
        caller = CALLER.get()
        return made.release_message(await self._done(self._service.delete_release, caller, request.id))

    async def GetCertificate(self, request: pb.ReleaseRequest, context: Any) -> pb.Document:
        """The certificate of a release."""
        beside = certificate_file((await self._released(request)).file)
        return pb.Document(json=await self._done(beside.read_text, "utf-8"))

    async def Verify(
        self, request_iterator: AsyncIterator[pb.CertifiedPart], context: Any
    ) -> pb.Verification:
        """Whether a file is what its certificate says."""
        caller = CALLER.get()
        file = await asked_first(request_iterator, self._seconds)
        if len(file.certificate_json) > MOST_WORDS:
            raise BadInput(f"the certificate is longer than {MOST_WORDS:,} characters.")
        with ExitStack() as brought:
            place = await uploaded(self._service, file.name, request_iterator, self._seconds, brought)
            certificate_file(place).write_text(file.certificate_json, "utf-8")
            work = partial(self._service.verified, caller, place)
            found = await self._service.direct.done(caller.tenant, work, brought.pop_all())
        return pb.Verification(holds=found["holds"], json=json.dumps(found))

    async def GetSigningKey(self, request: pb.GetSigningKeyRequest, context: Any) -> pb.SigningKey:
        """What certificates are verified with."""
        return pb.SigningKey(pem=self._service.signing_key)

    # The tenant's own things

    async def ListKeys(self, request: pb.ListKeysRequest, context: Any) -> AsyncIterator[pb.Key]:
        """All keys of the tenant."""
        for one in await self._done(self._service.keys_of, CALLER.get()):
            yield made.key_message(one)

    async def MakeKey(self, request: pb.NewKey, context: Any) -> pb.MadeKey:
        """Make a key."""
        caller = CALLER.get()
        key, token = await self._done(self._service.make_key, caller, **made.new_key(request))
        return pb.MadeKey(key=made.key_message(key), token=token)

    async def RevokeKey(self, request: pb.KeyRequest, context: Any) -> pb.Key:
        """Let a key open nothing any more."""
        caller = CALLER.get()
        return made.key_message(await self._done(self._service.revoke_key, caller, request.id))

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Any) -> pb.Policy:
        """How the tenant trusts its readers."""
        return made.policy_message(await self._done(self._service.policy, CALLER.get()))

    async def SetPolicy(self, request: pb.NewPolicy, context: Any) -> pb.Policy:
        """Replace the policy."""
        caller = CALLER.get()
        new = made.new_policy(request)
        policy = Policy.from_dict(new.policy)
        return made.policy_message(await self._done(self._service.set_policy, caller, policy, new.after))

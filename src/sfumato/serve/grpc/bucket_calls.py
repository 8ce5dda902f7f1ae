"""Buckets, readers and access keys, one method for each operation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sfumato.serve.grpc import grpc_messages as made
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.call_base import CALLER, Calls
from sfumato.serve.proxy.bucket_declarations import Bucket
from sfumato.serve.proxy.buckets import Buckets, shown
from sfumato.serve.reader_tiers import ReaderFacts

__all__ = ["BucketCalls"]


class BucketCalls(Calls):
    """The operations on what the storage proxy serves."""

    async def DeclareBucket(self, request: pb.Document, context: Any) -> pb.Document:
        """Declare a bucket."""
        caller = CALLER.get()
        new = made.new_bucket(request)
        return made.document((await self._done(self._buckets.declare, caller, new)).to_dict())

    async def ListBuckets(self, request: pb.ListBucketsRequest, context: Any) -> AsyncIterator[pb.Document]:
        """The buckets that the key may read."""
        caller = CALLER.get()
        for one in await self._done(self._buckets.buckets, caller):
            yield made.document(shown(one, caller))

    async def GetBucket(self, request: pb.BucketRequest, context: Any) -> pb.Document:
        """One bucket."""
        caller = CALLER.get()
        return made.document(shown(await self._done(self._buckets.bucket, caller, request.name), caller))

    async def GetTier(self, request: pb.BucketRequest, context: Any) -> pb.Tier:
        """The tier that whoever asks gets."""
        caller = CALLER.get()
        bucket: Bucket = await self._done(self._buckets.bucket, caller, request.name, "tier")
        level = await self._done(self._buckets.level, caller, bucket, self._address(context))
        return pb.Tier(tier=level, tiers=list(bucket.tiers.levels))

    async def RemoveBucket(self, request: pb.BucketRequest, context: Any) -> pb.Document:
        """Let a bucket be read no longer."""
        caller = CALLER.get()
        return made.document((await self._done(self._buckets.remove, caller, request.name)).to_dict())

    async def ListReaders(self, request: pb.ListReadersRequest, context: Any) -> AsyncIterator[pb.Reader]:
        """What the tenant says of its readers."""
        caller = CALLER.get()
        for reader, facts in (await self._done(self._buckets.readers, caller)).items():
            yield made.reader_message(reader, facts)

    async def SayOfReader(self, request: pb.Reader, context: Any) -> pb.Reader:
        """Say what holds of a reader."""
        caller = CALLER.get()
        facts = made.facts_of(request)
        await self._done(self._buckets.say, caller, request.reader, facts)
        return made.reader_message(request.reader, facts)

    async def ForgetReader(self, request: pb.ReaderRequest, context: Any) -> pb.Reader:
        """Say nothing of a reader any more."""
        caller = CALLER.get()
        await self._done(self._buckets.say, caller, request.reader, None)
        return made.reader_message(request.reader, ReaderFacts())

    async def GetAccessKey(self, request: pb.KeyRequest, context: Any) -> pb.AccessKey:
        """The access key of a key."""
        caller = CALLER.get()
        found, secret = await self._done(self._buckets.access_key, caller, request.id)
        return pb.AccessKey(access_key_id=found.id, secret_access_key=secret, path="/s3")

    @property
    def _buckets(self) -> Buckets:
        return Buckets.of(self._service)

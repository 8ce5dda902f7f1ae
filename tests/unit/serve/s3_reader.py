"""A client of S3 that signs as botocore does and asks an application in this process."""

from types import SimpleNamespace
from urllib.parse import quote, unquote

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

HOST = "http://testserver"


class Reader:
    """Asks as the access key ``key_id``; ``secret`` may be a wrong one."""

    def __init__(self, client, key_id, secret):
        self.client, self.credentials = client, Credentials(key_id, secret)

    def ask(self, path, query="", method="GET", **headers):
        """The answer to a signed request for ``path`` below /s3, as it would be written."""
        url, given = self._signed(path, query, method, headers)
        return self.client.request(method, url, headers=given)

    def ask_as_it_is(self, path):
        """The answer to a GET of a path that a client would tidy up before it asks, such as /a/../b."""
        url, given = self._signed(path, "", "GET", {})
        return self.client.portal.call(self._raw, url.removeprefix(HOST), given)

    def presigned(self, path, seconds=60):
        """A URL that anybody may ask for."""
        request = AWSRequest(method="GET", url=HOST + quote(f"/s3{path}", safe="/~"))
        S3SigV4QueryAuth(self.credentials, "s3", "us-east-1", expires=seconds).add_auth(request)
        return request.url

    def _signed(self, path, query, method, headers):
        url = HOST + quote(f"/s3{path}", safe="/~") + (f"?{query}" if query else "")
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        request = AWSRequest(method=method, url=url, headers=given)
        S3SigV4Auth(self.credentials, "s3", "us-east-1").add_auth(request)
        return url, dict(request.headers.items())

    async def _raw(self, target, headers):
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http",
            "method": "GET",
            "path": unquote(target),
            "raw_path": target.encode(),
            "query_string": b"",
            "headers": [(b"host", b"testserver"), *pairs],
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
            "scheme": "http",
            "http_version": "1.1",
        }
        came = SimpleNamespace(status_code=None, headers={}, content=b"")

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            if message["type"] == "http.response.start":
                came.status_code = message["status"]
                came.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                came.content += message.get("body", b"")

        await self.client.app(scope, receive, send)
        return came

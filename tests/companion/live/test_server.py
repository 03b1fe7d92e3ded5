"""Who may come in at the live book's door, and what they may ask: attacked here over HTTP."""

import io
import socket
import zipfile
from contextlib import suppress

import pytest
from visitors import Browser, ended

from companion.live import server
from companion.project import Project
from rbp.errors import ParameterError, RbpError

EVERYWHERE = "0.0.0.0"  # noqa: S104
TABLE = b"dataset,model,family,size,metric,k,value\nd,m,F,1000,neg_log_rbp,1,0.5\n"


def ask(reader, **parameters):
    return reader("POST", "/api/runs", {"chapter": "01_a", "parameters": parameters})


def uploads(reader):
    return list((reader.live.project.runs / "live").glob("uploads/*"))


def test_nobody_gets_in_without_the_token_which_is_good_once(live):
    stranger = Browser(live)
    for path in ("/", "/index.html", "/live/live.js", "/api/runs", "/api/chapters/01_a"):
        status, said = stranger("GET", path)
        assert status == 401, path
        assert b"the book" not in said
    for path in ("/enter?token=", "/enter?token=" + "x" * 43, "/enter"):
        assert stranger("GET", path)[0] == 401
    address = live.address
    first = Browser(live).enter()
    assert Browser(live)("GET", address.partition(str(live.port))[2])[0] == 401
    assert Browser(live).enter().cookie != first.cookie
    flags = {part.strip().lower() for part in first.headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= flags


def test_the_cookie_is_for_the_browser_alone_and_the_key_for_our_pages(live, reader):
    assert reader("GET", "/")[0] == 200
    assert reader.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert reader("GET", "/api/runs")[0] == 200
    # another program at another port of this machine is sent the cookie, and never sees the key
    assert reader("GET", "/api/runs", drop=("X-RBP-Key",))[0] == 401
    assert reader("GET", "/api/runs", drop=("Cookie",))[0] == 401
    for wrong in ("wrong", Browser(live).enter().key):
        assert reader("GET", "/api/runs", X_RBP_Key=wrong)[0] == 401, wrong


def test_a_name_that_leads_here_from_outside_is_refused(live, reader):
    port = live.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1", f"10.0.0.1:{port}", ""):
        for path in ("/", "/api/runs", "/enter?token=" + live.visitors.token):
            assert reader("GET", path, Host=host)[0] in (400, 421), (host, path)
    assert reader("GET", "/api/runs")[0] == 200  # and the token is not used up


def test_other_pages_change_nothing_and_read_nothing(live, reader):
    run = {"chapter": "01_a", "parameters": {}}
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{live.port}"):
        assert reader("POST", "/api/runs", run, Origin=origin)[0] == 403, origin
        assert reader("GET", "/api/runs", Origin=origin)[0] == 403, origin
    assert reader("POST", "/api/runs", run, drop=("Origin",))[0] == 403
    assert reader("GET", "/api/runs", Sec_Fetch_Site="cross-site")[0] == 403
    assert live.runs.all() == []


def test_no_file_but_the_books_own_is_served_and_no_folder_is_listed(live, reader):
    (live.project.html / "notebooks").mkdir()
    (live.project.html / "notebooks" / "hidden.csv").write_text("x")
    outside = ("/%2e%2e/secret.txt", "/../secret.txt", "/..%2fsecret.txt", "//etc/passwd", "/live/../../server.py")
    for path in (*outside, "/live/%2e%2e/runs.py", "/notebooks", "/notebooks/", "/live/"):
        status, said = reader("GET", path)
        assert status in (404, 405), path
        assert b"not a page" not in said


def silent(live, words=b""):
    line = socket.create_connection(("127.0.0.1", live.port), timeout=120)
    line.sendall(words)
    return line


@pytest.mark.usefixtures("work_here")
def test_a_chapter_is_run_looked_at_compared_kept_and_deleted(reader):
    status, first = ask(reader, value="0.25")
    assert (status, first["state"], first["parameters"]) == (201, "waiting", {"value": 0.25})
    _, second = ask(reader)
    for run in (first, second):
        assert ended(reader.live.runs, run["id"]).state == "done"
    _, shown = reader("GET", f"/api/runs/{first['id']}")
    assert "cell 2 of 2" in shown["log"]
    assert ask(reader, value="0.25")[1]["id"] == first["id"], "the same is not run again"
    status, compared = reader("POST", "/api/compare", {"runs": [first["id"], second["id"]]})
    assert status == 200, compared
    assert b"2 runs of 01_a compared" in Browser(reader.live)("GET", compared["address"])[1]
    for wrong in ([first["id"]], first["id"], [first["id"], "nothing"], [1, 2]):
        assert reader("POST", "/api/compare", {"runs": wrong})[0] == 422
    status, data = reader("GET", f"/api/runs/{first['id']}/zip")
    assert reader.headers["content-disposition"] == f"attachment; filename*=UTF-8''01_a-{first['id']}.zip"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == ["01_a/data.csv", "01_a.html", "results.json"]
    assert reader("DELETE", f"/api/runs/{first['id']}")[0] == 204
    assert [run["id"] for run in reader("GET", "/api/runs")[1]] == [second["id"]]
    assert reader("GET", f"/api/runs/{first['id']}")[0] == 422


def test_a_runs_page_is_shown_in_a_sandbox_and_by_its_chance_name_alone(reader):
    _, run = ask(reader, value="0.1")
    ended(reader.live.runs, run["id"])
    _, shown = reader("POST", f"/api/runs/{run['id']}/show")
    stranger = Browser(reader.live)  # the frame has neither cookie nor key
    status, page = stranger("GET", shown["address"])
    assert status == 200
    assert b"0.1" in page
    policy = stranger.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    folder = shown["address"].rpartition("/")[0]
    assert stranger("GET", f"{folder}/01_a/data.csv")[0] == 200
    for path in ("../run.json", "%2e%2e/run.json", "..%2frun.json", "", "01_a", "/etc/passwd"):
        assert stranger("GET", f"{folder}/{path}")[0] == 404, path
    assert stranger("GET", "/shown/guess/01_a.html")[0] == 404
    reader("DELETE", f"/api/runs/{run['id']}")
    assert stranger("GET", shown["address"])[0] == 404


REFUSED = [
    ("draws", "1000000000", "1,000,000,000 is too much"),
    ("draws", "0", "0 is out of range"),
    ("draws", "__import__('os').system('touch /tmp/x')", "is not of type int"),
    ("value", "nan", "is not of type float"),
    ("measurements", ",".join(["published"] * 5000), "named twice"),
    ("measurements", "/etc/passwd", "not an available source"),
    ("measurements", "../secret.csv", "not an available source"),
    ("measurements", "published,EleutherAI/pythia-14m", "not an available source"),
    ("datasets", "<script>alert(1)</script>", "is not a name"),
    ("study", "/etc/passwd", "not available"),
    ("study", "studies/../studies/two.toml", "not available"),
    *((name, "\ud800", "") for name in ("\ud800", "datasets", "measurements", "value")),  # half a character
]


def test_what_is_impossible_or_looks_like_code_is_refused(reader):
    chapters = [{"chapter": name, "parameters": {}} for name in ("\ud800", "../../etc")]
    bodies = [b"", b"{", b"[]", b'{"chapter": 1}', b'{"chapter": "01_a", "parameters": {"value": 1}}', b"[" * 60_000]
    assert {reader("POST", "/api/runs", body)[0] for body in (*chapters, *bodies)} == {422}
    for name, value, what in REFUSED:
        status, said = ask(reader, **{name: value})
        assert (status, what in said["what"], bool(said["what"])) == (422, True, True), (name, value)
    assert reader.live.runs.all() == []


@pytest.mark.usefixtures("work_here")
def test_uploads_become_sources_of_their_owner_alone_and_are_deleted(reader):
    first, again = (reader("PUT", "/api/uploads/my%20<b>table.csv", TABLE)[1] for _ in range(2))
    assert first["value"] == again["value"], "the same file again has one entry"
    others = [
        reader("PUT", f"/api/uploads/{name}", data)[1] for name, data in (("b.csv", TABLE), ("b.csv", TABLE + b"\n"))
    ]
    assert len({each["value"] for each in (first, *others)}) == len(uploads(reader)) == 3
    _, form = reader("GET", "/api/chapters/01_a")
    field = next(f for f in form["fields"] if f["name"] == "measurements")
    assert again in field["choices"]
    assert "<" not in first["label"]
    assert {path.stat().st_mode & 0o777 for path in uploads(reader)} == {0o600}
    status, run = ask(reader, measurements=first["value"])
    assert status == 201
    assert run["parameters"]["measurements"].startswith("runs/live/uploads/")
    for name, status in ((first["value"], 204), (first["value"], 422), ("published", 422)):
        assert reader("DELETE", f"/api/uploads/{name}")[0] == status


@pytest.mark.long
def test_what_is_no_table_is_refused_by_its_name_and_not_kept(reader):
    for name, what in (("mine.csv", "(mine.csv"), ("a.pkl", "only CSV and Parquet")):
        status, said = reader("PUT", f"/api/uploads/{name}", b"dataset,model\na,b\n")
        assert (status, what in said["what"], "uploads" in said["what"]) == (422, True, False)
    assert uploads(reader) == []


def test_a_huge_upload_is_not_read_to_its_end(reader):
    status, said = reader("PUT", "/api/uploads/a.csv", b"x", Content_Length="1000000000")
    assert (status, said) == (413, b"At most 20,000,000 bytes are accepted.")
    host, sent, piece = f"127.0.0.1:{reader.live.port}", 0, b"100000\r\n" + bytes(0x100000) + b"\r\n"
    head = f"PUT /api/uploads/a.csv HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {reader.cookie}\r\n"
    head += f"X-RBP-Key: {reader.key}\r\nTransfer-Encoding: chunked\r\n\r\n"  # it does not say its length
    with silent(reader.live, head.encode()) as line, suppress(ConnectionError, TimeoutError):
        while sent < 200:
            line.sendall(piece)
            sent += 1
    assert sent < 200
    assert reader("GET", "/api/runs")[0] == 200
    assert uploads(reader) == []


def test_another_address_needs_leave_and_a_book_and_a_free_port_are_needed(project, tmp_path):
    with pytest.raises(ParameterError, match="other machines could run chapters") as caught:
        server.serve(project, EVERYWHERE, 0, i_know=False, minutes=1)
    assert "--i-know" in caught.value.remedy
    with pytest.raises(RbpError, match="not built yet"):
        server.serve(Project(tmp_path), "127.0.0.1", 0, i_know=False, minutes=1)
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(RbpError, match="is taken"):
        server.serve(project, "127.0.0.1", other.getsockname()[1], i_know=False, minutes=1)


def test_where_others_are_let_in_an_address_is_a_host_and_a_name_is_not(project, runs):
    live = server.Live(project, EVERYWHERE, 8000, runs, print)
    assert all(map(live._is_here, ("192.168.1.5:8000", "[::1]:8000", f"{socket.gethostname()}:8000")))
    assert not any(map(live._is_here, ("evil.example:8000", "192.168.1.5:8001")))
    assert all(map(server.is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(server.is_loopback, (EVERYWHERE, "::", "192.168.1.5", "example.org", "")))

"""Who may come in at the live book's door, and what they may ask: attacked here over HTTP."""

import gzip
import io
import logging
import os
import socket
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from visitors import Browser, ended

from companion.live import requests, server
from companion.live import runs as runs_module
from companion.project import Project
from companion.run import all_chapters
from rbp.errors import ParameterError, RbpError
from rbp.measurements import open_source

EVERYWHERE = "0.0.0.0"  # noqa: S104


def wait(reader, name):
    return ended(reader.live.runs, name)


def ask(reader, **parameters):
    return reader("POST", "/api/runs", {"chapter": "01_a", "parameters": parameters})


# ── The door


def test_nobody_gets_in_without_the_token(live):
    stranger = Browser(live)
    for path in ("/", "/index.html", "/live/live.js", "/api/runs", "/api/chapters/01_a"):
        status, said = stranger("GET", path)
        assert status == 401, path
        assert b"the book" not in said
    assert stranger("GET", "/enter?token=")[0] == 401
    assert stranger("GET", "/enter?token=" + "x" * 43)[0] == 401
    assert stranger("GET", "/enter")[0] == 401


def test_the_token_is_good_once(live):
    address = live.address
    path = address.partition(str(live.port))[2]
    first, second = Browser(live), Browser(live)
    assert first("GET", path)[0] == 303
    assert "set-cookie" in first.headers
    assert second("GET", path)[0] == 401
    assert live.address != address  # another is there for the next browser
    assert Browser(live).enter().cookie != first.headers["set-cookie"]


def test_the_cookie_is_for_the_browser_alone_and_the_key_for_our_pages(live, reader):
    browser = Browser(live)
    browser("GET", live.address.partition(str(live.port))[2])
    flags = {part.strip().lower() for part in browser.headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= flags
    assert reader("GET", "/")[0] == 200
    assert reader("GET", "/api/runs")[0] == 200
    # another program at another port of this machine is sent the cookie, and never sees the key
    assert reader("GET", "/api/runs", drop=("X-RBP-Key",))[0] == 401
    assert reader("GET", "/api/runs", X_RBP_Key="wrong")[0] == 401
    assert reader("GET", "/api/runs", drop=("Cookie",))[0] == 401
    other = Browser(live).enter()
    assert reader("GET", "/api/runs", X_RBP_Key=other.key)[0] == 401


def test_a_browser_that_was_in_is_known_when_the_server_starts_again(live, reader):
    again = server.Visitors(live.runs.folder / "visitors.json")
    cookie = reader.cookie.partition("=")[2]
    assert again.knows(cookie)
    assert again.acts(cookie, reader.key)
    assert not again.acts(cookie, "wrong")
    assert not again.knows("wrong")
    kept = live.runs.folder / "visitors.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert cookie not in kept.read_text()
    assert reader.key not in kept.read_text()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "10.0.0.1:{port}", ""]
)
def test_a_name_that_leads_here_from_outside_is_refused(live, reader, host):
    host = host.format(port=live.port)
    for path in ("/", "/api/runs", "/enter?token=" + live.visitors.token):
        assert reader("GET", path, Host=host)[0] in (400, 421), path
    assert reader("GET", "/api/runs")[0] == 200  # and the token is not used up


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}"])
def test_other_pages_change_nothing_and_read_nothing(live, reader, origin):
    origin = origin.format(port=live.port)
    assert reader("POST", "/api/runs", {"chapter": "01_a", "parameters": {}}, Origin=origin)[0] == 403
    assert reader("GET", "/api/runs", Origin=origin)[0] == 403
    assert live.runs.all() == []


def test_a_change_without_an_origin_is_refused(live, reader):
    assert reader("POST", "/api/runs", {"chapter": "01_a", "parameters": {}}, drop=("Origin",))[0] == 403
    assert reader("GET", "/api/runs", Sec_Fetch_Site="cross-site")[0] == 403
    assert live.runs.all() == []


@pytest.mark.parametrize(
    "path",
    [
        "/%2e%2e/secret.txt",
        "/../secret.txt",
        "/..%2fsecret.txt",
        "//etc/passwd",
        "/live/../../server.py",
        "/live/%2e%2e/runs.py",
    ],
)
def test_no_file_but_the_books_own_is_served(reader, path):
    status, said = reader("GET", path)
    assert status in (404, 405)
    assert b"not a page" not in said


def test_folders_are_not_listed(live, reader):
    (live.project.html / "notebooks").mkdir()
    (live.project.html / "notebooks" / "hidden.csv").write_text("x")
    for path in ("/notebooks", "/notebooks/", "/live/"):
        assert reader("GET", path)[0] == 404


def test_pages_of_the_book_come_alive_and_cannot_be_framed(reader):
    status, page = reader("GET", "/index.html")
    assert status == 200
    assert page.endswith(b'<script src="/live/live.js" defer></script></body>')
    assert reader.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert reader.headers["x-content-type-options"] == "nosniff"


def test_pages_are_compressed_for_who_can_read_that_and_answers_are_not(reader):
    plain = reader("GET", "/index.html")[1]
    project = reader.live.project
    (project.html / "long.html").write_text("<body>" + "the book " * 500 + "</body>")
    _, packed = reader("GET", "/long.html", accept_encoding="gzip")
    assert reader.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed).endswith(plain[plain.index(b"<link") :])
    assert reader.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert "content-encoding" not in (reader("GET", "/long.html"), reader.headers)[1]
    reader("GET", "/api/chapters/01_a", accept_encoding="gzip")
    assert "content-encoding" not in reader.headers


# ── Those who keep a door open


def silent(live, words=b""):
    line = socket.create_connection(("127.0.0.1", live.port), timeout=30)
    line.sendall(words)
    return line


def test_whoever_says_nothing_keeps_nobody_out(live, reader):
    with ExitStack() as held:
        for number in range(400):
            words = b"GET / HTTP/1.1\r\nHost: " if number % 2 else b""
            held.enter_context(silent(live, words))
            if number % 50 == 0:
                assert reader("GET", "/")[0] == 200
        assert reader("GET", "/api/runs")[0] == 200
        assert ask(reader)[0] == 201


def test_a_connection_must_soon_say_what_it_asks_for(live, reader, monkeypatch):
    monkeypatch.setattr(server, "HEAD", 0.5)
    head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\nCookie: {reader.cookie}\r\n"
    for words in ("", "GET", head):
        with silent(live, words.encode()) as line:
            assert line.recv(1000) == b""
    with silent(live, f"{head}\r\n".encode()) as line:  # it is kept for the next request, which must be said as well
        assert line.recv(1000).startswith(b"HTTP/1.1 200")
        line.sendall(b"GET")
        while line.recv(1000):
            pass


def test_what_is_asked_bit_by_bit_is_not_waited_for(live, monkeypatch):
    monkeypatch.setattr(server, "HEAD", 0.5)
    with silent(live) as line:
        line.settimeout(0.1)
        for _ in range(300):
            with suppress(TimeoutError, ConnectionError):
                line.sendall(b"G")
                if line.recv(1) == b"":
                    return
    pytest.fail("it waits on")


def test_only_who_is_in_keeps_a_connection(live, reader):
    for path in ("/", "/enter?token=x", "/shown/guess/01_a.html", "/api/runs"):
        stranger = Browser(live)
        assert stranger("GET", path)[0] in (401, 404)
        assert stranger.headers["connection"] == "close"
    assert reader("GET", "/")[0] == 200
    assert "connection" not in reader.headers


# ── Requests


def test_a_chapter_is_run_looked_at_compared_kept_and_deleted(reader):
    status, first = ask(reader, value="0.25")
    assert (status, first["state"], first["parameters"]) == (201, "waiting", {"value": 0.25})
    _, second = ask(reader)
    for run in (first, second):
        assert wait(reader, run["id"]).state == "done"
    _, told = reader("GET", f"/api/runs/{first['id']}")
    assert "cell 2 of 2" in told["log"]
    assert (told["words"], first["id"]) == (
        "value = 0.25",
        ask(reader, value="0.25")[1]["id"],
    )  # the same is not run again
    status, compared = reader("POST", "/api/compare", {"runs": [first["id"], second["id"]]})
    assert status == 200, compared
    assert b"2 runs compared" in Browser(reader.live)("GET", compared["address"])[1]
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
    wait(reader, run["id"])
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


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("draws", "1000000000", "1,000,000,000 is too much"),
        ("draws", "0", "0 is out of range"),
        ("value", "-999999", "too much"),
        ("draws", "2e3", "is no int"),
        ("draws", "__import__('os').system('touch /tmp/x')", "is no int"),
        ("value", "1e300", "too much"),
        ("value", "nan", "is no float"),
        ("measurements", "/etc/passwd", "not among the sources"),
        ("measurements", "../secret.csv", "not among the sources"),
        ("measurements", "./runs", "not among the sources"),
        ("measurements", "published,EleutherAI/pythia-14m", "not among the sources"),
        ("datasets", "a/b", "is no name"),
        ("datasets", "<script>alert(1)</script>", "is no name"),
        ("datasets", ",".join(["a"] * 31), "too long"),
        ("study", "/etc/passwd", "not at hand"),
        ("study", "studies/other.csv", "not at hand"),
        ("study", "studies/../studies/two.toml", "not at hand"),
        ("nothing", "1", "there is no parameter"),
        ("measurements", "published\0", "not among the sources"),
    ],
)
def test_what_is_impossible_or_looks_like_code_is_refused(reader, name, value, what):
    status, said = ask(reader, **{name: value})
    assert status == 422
    assert what in said["what"]
    assert reader.live.runs.all() == []


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("draws", "20000", 20000),
        ("seed", "123456789", 123456789),
        ("measurements", "outside, ladder", "outside,ladder"),
        ("datasets", "wiki-2 (en), b", ["wiki-2 (en)", "b"]),
        ("study", "studies/two.toml", "studies/two.toml"),
    ],
)
def test_what_is_sensible_is_taken(reader, name, value, taken):
    status, run = ask(reader, **{name: value})
    assert (status, run["parameters"]) == (201, {name: taken})


@pytest.mark.parametrize(
    "content",
    [
        {"chapter": "\ud800", "parameters": {}},
        {"chapter": "01_a", "parameters": {"\ud800": "1"}},
        {"chapter": "01_a", "parameters": {"datasets": "\ud800"}},
        {"chapter": "01_a", "parameters": {"measurements": "\ud800"}},
        {"chapter": "01_a", "parameters": {"value": "\udfff"}},
    ],
)
def test_half_a_character_is_answered(reader, content):
    status, said = reader("POST", "/api/runs", content)
    assert status == 422
    assert said["what"]


def test_a_file_whose_name_is_no_text_is_named_all_the_same(reader):
    folder = reader.live.project.runs / "studies" / os.fsdecode(b"caf\xe9")
    folder.mkdir(parents=True)
    (folder / "measurements.parquet").touch()
    assert reader("GET", "/api/chapters/01_a")[0] == 200


def test_the_form_knows_ranges_and_which_texts_name_sources(reader):
    _, form = reader("GET", "/api/chapters/01_a")
    assert {field["name"]: field["bounds"] for field in form["fields"] if field["bounds"]} == {"draws": {"ge": 1}}
    for chapter in all_chapters(Project()):
        for field in requests.form(Project(), chapter):
            if field["kind"] == "text" and field["type"] == "str":
                with pytest.raises(ParameterError):  # no source, which a reader could then write as they like
                    open_source(field["default"])


@pytest.mark.parametrize("given", ["", ",", "published,published", ",".join(["published"] * 5000)])
def test_a_source_is_named_and_once(reader, given):
    status, said = ask(reader, measurements=given)
    assert status == 422
    assert said["what"] in ("no source is named", "the source published is named twice")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"chapter": 1}', b'{"chapter": "01_a", "parameters": {"value": 1}}', b"[" * 60_000]
)
def test_a_request_that_makes_no_sense_is_answered(reader, body):
    assert reader("POST", "/api/runs", body)[0] == 422
    assert reader("POST", "/api/runs", {"chapter": "../../etc", "parameters": {}})[0] == 422


def test_a_full_disk_is_told(reader, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs_module, "write_json", full)
    status, said = ask(reader)
    assert (status, said["what"]) == (507, "the system does not let us write: no space left on device")
    assert reader.live.runs.all() == []


# ── Uploads


def test_an_upload_is_read_as_data_and_becomes_a_source(reader):
    table = "dataset,model,family,size,metric,k,value\n"
    table += "".join(f"<script>alert(1)</script>,m{i},F,{10**i},neg_log_rbp,1,0.{9 - i}\n" for i in range(4, 8))
    status, source = reader("PUT", "/api/uploads/my%20<b>table.csv", table.encode())
    assert status == 201, source
    _, form = reader("GET", "/api/chapters/01_a")
    field = next(f for f in form["fields"] if f["name"] == "measurements")
    assert source in field["choices"]
    assert "<" not in source["label"]
    status, run = ask(reader, measurements=source["value"])
    assert status == 201
    assert run["parameters"]["measurements"].startswith("runs/live/uploads/")


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("a.csv", b"this is no table", "no rows"),
        ("a.csv", b"", "empty"),
        ("a.parquet", b"PAR1" + bytes(100), "Parquet"),
        ("a.pkl", b"\x80\x04.", "only CSV and Parquet"),
        ("a.csv.exe", b"x", "only CSV and Parquet"),
    ],
)
def test_what_is_no_table_is_refused_and_not_kept(reader, name, data, what):
    status, said = reader("PUT", f"/api/uploads/{name}", data)
    assert status == 422
    assert what in said["what"]
    assert list((reader.live.project.runs / "live").glob("uploads/*")) == []


def test_a_fault_is_told_by_the_name_that_the_reader_gave(reader):
    status, said = reader("PUT", "/api/uploads/mine.csv", b"dataset,model\na,b\n")
    assert status == 422
    assert "(mine.csv" in said["what"]
    assert "uploads" not in said["what"]


def test_uploads_of_one_name_are_told_apart_and_deleted(reader, monkeypatch):
    table = b"dataset,model,family,size,metric,k,value\nd,m,F,1000,neg_log_rbp,1,0.5\n"
    first, second = (reader("PUT", "/api/uploads/mine.csv", table)[1] for _ in range(2))
    assert first["value"] != second["value"]
    assert first["label"].startswith("mine.csv (uploaded ")
    assert reader("DELETE", f"/api/uploads/{first['value']}")[0] == 204
    assert reader("DELETE", f"/api/uploads/{first['value']}")[0] == 422
    assert reader("DELETE", "/api/uploads/published")[0] == 422
    listed = [source.name for source in requests.sources(reader.live.project) if source.name.startswith("upload")]
    assert listed == [second["value"]]


def test_an_upload_is_the_owners_alone(reader):
    table = b"dataset,model,family,size,metric,k,value\nd,m,F,1000,neg_log_rbp,1,0.5\n"
    assert reader("PUT", "/api/uploads/a.csv", table)[0] == 201
    (kept,) = (reader.live.project.runs / "live" / "uploads").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_an_upload_that_is_cut_is_not_kept_and_no_error_of_ours(reader, monkeypatch, caplog):
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)
    cut, body = threading.Event(), server._body

    async def told(request, most):
        try:
            return await body(request, most)
        finally:
            cut.set()

    monkeypatch.setattr(server, "_body", told)
    head = f"PUT /api/uploads/a.csv HTTP/1.1\r\nHost: 127.0.0.1:{reader.live.port}\r\nCookie: {reader.cookie}\r\n"
    head += (
        f"X-RBP-Key: {reader.key}\r\nOrigin: http://127.0.0.1:{reader.live.port}\r\nContent-Length: 1000\r\n\r\nso far"
    )
    with silent(reader.live, head.encode()):
        pass
    assert cut.wait(60)
    assert reader("GET", "/")[0] == 200  # by now, it is over
    logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert list((reader.live.project.runs / "live").glob("uploads/*")) == []


def test_only_so_many_uploads_are_kept(reader):
    folder = reader.live.project.runs / "live" / "uploads"
    folder.mkdir(parents=True)
    for number in range(50):
        (folder / f"{number:08x}-a.csv").write_text("")
    status, said = reader("PUT", "/api/uploads/a.csv", b"x")
    assert (status, said["what"]) == (422, "there are 50 uploads already")


def test_a_huge_upload_is_not_read_to_its_end(reader):
    status, said = reader("PUT", "/api/uploads/a.csv", b"x", Content_Length="1000000000")
    assert (status, said) == (413, b"At most 20,000,000 bytes are taken.")
    with socket.create_connection(("127.0.0.1", reader.live.port)) as line:  # one that does not tell its length
        head = f"PUT /api/uploads/a.csv HTTP/1.1\r\nHost: 127.0.0.1:{reader.live.port}\r\nCookie: {reader.cookie}\r\n"
        head += f"X-RBP-Key: {reader.key}\r\nOrigin: http://127.0.0.1:{reader.live.port}\r\n"
        line.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        line.settimeout(30)
        piece, sent = b"100000\r\n" + bytes(0x100000) + b"\r\n", 0
        try:
            while sent < 1000:
                line.sendall(piece)
                sent += 1
        except (ConnectionError, TimeoutError):
            pass
        assert sent < 200
    assert reader("GET", "/api/runs")[0] == 200
    assert list((reader.live.project.runs / "live").glob("uploads/*")) == []


def test_two_hundred_requests_at_once_do_not_hurt(reader):
    def one(_):
        return Browser.__call__(Browser(reader.live), "GET", "/", Cookie=reader.cookie)[0]

    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(one, range(200)))
    assert set(answers) == {200}
    assert reader("GET", "/api/runs")[0] == 200


# ── The command


def test_another_address_needs_leave(project):
    with pytest.raises(ParameterError, match="other machines could run chapters") as caught:
        server.serve(project, EVERYWHERE, 0, i_know=False, minutes=1)
    assert "--i-know" in caught.value.remedy


def test_a_book_that_is_not_built_and_a_port_that_is_taken(project, tmp_path):
    with pytest.raises(RbpError, match="not built yet"):
        server.serve(Project(tmp_path), "127.0.0.1", 0, i_know=False, minutes=1)
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(RbpError, match="is taken"):
        server.serve(project, "127.0.0.1", other.getsockname()[1], i_know=False, minutes=1)


def test_where_others_are_let_in_an_address_is_a_host_and_a_name_is_not(project, runs):
    live = server.Live(project, EVERYWHERE, 8000, runs, print)
    assert live._is_here("192.168.1.5:8000")
    assert live._is_here("[::1]:8000")
    assert live._is_here(f"{socket.gethostname()}:8000")
    assert not live._is_here("evil.example:8000")
    assert not live._is_here("192.168.1.5:8001")


def test_loopback():
    assert all(map(server.is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(server.is_loopback, (EVERYWHERE, "::", "192.168.1.5", "example.org", "")))

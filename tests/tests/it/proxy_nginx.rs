//! nginx as it comes from Debian as the upstream, and curl as the client.

use std::path::{Path, PathBuf};
use std::process::Command;

use cardinal_tests::{Host, PortReservation, Program, eventually, repository};

fn nginx() -> PathBuf {
    let unpacked = repository().join("var/nginx/usr/sbin/nginx");
    let known = [Path::new("/usr/sbin/nginx"), unpacked.as_path()];
    let found = known.iter().find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no nginx at {known:?}: run scripts/test once, which installs it")).to_path_buf()
}

struct Nginx {
    _program: Program,
    folder: tempfile::TempDir,
    _reservation: PortReservation,
    port: u16,
}

impl Nginx {
    async fn start() -> Nginx {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        let reservation = PortReservation::start();
        let port = reservation.address().port();
        std::fs::create_dir(folder.path().join("files")).unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {at}/{kind};\n"))
            .concat();
        let configuration = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ {temporary} access_log off; gzip on; gzip_proxied any; gzip_min_length 1; gzip_types text/plain;\n\
             server {{ listen 127.0.0.1:{port}; root {at}/files; client_max_body_size 1m;\n\
             location /store/ {{ dav_methods PUT; create_full_put_path on; }}\n\
             location /moved {{ return 301 /there; }} }} }}\n"
        );
        std::fs::write(folder.path().join("nginx.conf"), configuration).unwrap();
        let settings = format!("{at}/nginx.conf");
        let none: [(&str, &str); 0] = [];
        let program = Program::start(&nginx(), &["-p", &at, "-c", &settings], none, &folder.path().join("log"));
        eventually("nginx listens", async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()).await;
        Nginx { _program: program, folder, _reservation: reservation, port }
    }
}

fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "-m", "60"]).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_behind_nginx_is_the_same_through_the_proxy() {
    let nginx = Nginx::start().await;
    let files = nginx.folder.path().join("files");
    std::fs::write(files.join("a.txt"), "hello, world\n".repeat(1000)).unwrap();
    let routes = format!("/site=http://127.0.0.1:{}/", nginx.port);
    let host = Host::settings().set("PROXY_ROUTES", routes).start().await;
    let url = |path: &str| format!("{}/site{path}", host.url());

    assert_eq!(curl(&[&url("/a.txt")]), "hello, world\n".repeat(1000));
    assert_eq!(curl(&["-r", "0-4", "-w", " %{http_code}", &url("/a.txt")]), "hello 206");
    let head = curl(&["-I", &url("/a.txt")]).to_lowercase();
    assert!(head.contains("content-length: 13000") && head.contains("server: nginx"), "{head}");
    let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let again = curl(&["-H", &format!("If-None-Match: {etag}"), "-w", "%{http_code}", &url("/a.txt")]);
    assert_eq!(again, "304");
    let packed = curl(&["--compressed", "-w", " %header{content-encoding}", &url("/a.txt")]);
    assert_eq!(packed, "hello, world\n".repeat(1000) + " gzip");
    assert_eq!(curl(&["-o", "/dev/null", "-w", "%{http_code}", &url("/none")]), "404");
    let moved = curl(&["-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", &url("/moved")]);
    // nginx names its own port there, which the client could not reach.
    assert_eq!(moved, format!("301 {}", url("/there")));

    let upload = nginx.folder.path().join("upload");
    std::fs::write(&upload, vec![b'x'; 900_000]).unwrap();
    let path = upload.display().to_string();
    assert_eq!(curl(&["-T", &path, "-o", "/dev/null", "-w", "%{http_code}", &url("/store/one")]), "201");
    assert_eq!(std::fs::metadata(files.join("store/one")).unwrap().len(), 900_000);
    let chunked = ["-T", &path, "-H", "Transfer-Encoding: chunked", "-o", "/dev/null", "-w", "%{http_code}"];
    assert_eq!(curl(&[&chunked[..], &[&url("/store/two")]].concat()), "201");
    assert_eq!(std::fs::metadata(files.join("store/two")).unwrap().len(), 900_000);
    std::fs::write(&upload, vec![b'x'; 3_000_000]).unwrap();
    let refused = curl(&[
        "-T",
        &path,
        "-H",
        "Expect: 100-continue",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} %{size_upload}",
        &url("/store/three"),
    ]);
    assert_eq!(refused, "413 0", "the upload was refused before it was sent");
    let unasked = ["-T", &path, "-H", "Expect:", "-o", "/dev/null", "-w", "%{http_code}"];
    assert_eq!(curl(&[&unasked[..], &[&url("/store/four")]].concat()), "413");
}

//! Data folders whose PostgreSQL is made already. `initdb` costs more than all else of a first start, so it runs once for
//! all tests, through the product's own code; every other host gets a copy, and does the rest of a first start itself.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use cardinal_supervisor::data_dir::DataDir;
use cardinal_supervisor::launch::Launcher;
use cardinal_supervisor::postgres::PrivatePostgres;

use crate::process::cardinal_program;

/// What a host that has never started finds in its `DATA_DIR`: the server, and the password of its administrator.
const PARTS: [&str; 2] = ["pg", "postgres-password"];
/// Where PostgreSQL's programs are, on a system without its own.
const PROGRAMS: &str = "POSTGRES_BIN_DIR";

/// Makes the folder `data`, which must not exist, with an empty server of the default programs.
pub(crate) fn lay_out(data: &Path) {
    static NEW: OnceLock<PathBuf> = OnceLock::new();
    let new = NEW.get_or_init(empty_data_folder);
    private_folder(data);
    copy(&PARTS.map(|part| new.join(part)), data);
}

/// Copies files and folders into a folder, with their owners.
pub(crate) fn copy(parts: &[PathBuf], into: &Path) {
    let status = Command::new("cp").arg("-a").args(parts).arg(into).status().unwrap();
    assert!(status.success(), "copying {parts:?}: {status}");
}

/// Made by the first run of tests that wants it, and kept beside what was built.
fn empty_data_folder() -> PathBuf {
    let program = cardinal_program();
    let all = program.parent().unwrap().join("empty-clusters");
    let folder = all.join(format!("{:016x}", fingerprint(&program)));
    if folder.exists() {
        return folder;
    }
    std::fs::create_dir_all(&all).unwrap();
    // Beside, and renamed when complete: other processes may do the same.
    let draft = tempfile::Builder::new().prefix(".").tempdir_in(&all).unwrap();
    let data = draft.path().join("data");
    make_server(program, data.clone());
    match std::fs::rename(&data, &folder) {
        Err(error) if !folder.exists() => panic!("{}: {error}", folder.display()),
        _ => folder,
    }
}

/// Another build of the host may make another server, and another user one of its own.
fn fingerprint(program: &Path) -> u64 {
    let built = std::fs::metadata(program).unwrap();
    let mut hasher = DefaultHasher::new();
    let user = rustix::process::geteuid().as_raw();
    (built.mtime(), built.size(), std::env::var_os(PROGRAMS), user).hash(&mut hasher);
    hasher.finish()
}

/// On a thread of its own, which lives as long as the server.
fn make_server(program: PathBuf, folder: PathBuf) {
    let run = move || {
        private_folder(&folder);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let programs = std::env::var_os(PROGRAMS).map(PathBuf::from);
            let data = DataDir::open(&folder).unwrap();
            let server = PrivatePostgres::start(&data, &Launcher::program(program), programs.as_deref()).await;
            server.unwrap().stop().await;
        });
    };
    std::thread::spawn(run).join().unwrap();
}

fn private_folder(path: &Path) {
    std::fs::DirBuilder::new().mode(0o700).create(path).unwrap();
}

//! The Admin UI is embedded file by file; a build of it that adds or removes files must rebuild the host.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../../frontend/dist");
}

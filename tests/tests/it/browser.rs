//! The Admin UI in a real browser: Playwright's tests of `frontend/e2e`, against a host of their own.

use std::process::Command;

use cardinal_tests::{Host, OWNER, OWNER_PASSWORD, repository};

#[tokio::test]
async fn the_admin_ui_works_in_chromium() {
    let host = Host::shared().await;
    let mut command = Command::new("npx");
    command.args(["--no-install", "playwright", "test", "--reporter=list"]).current_dir(repository().join("frontend"));
    command.env("CARDINAL_URL", host.url()).env("CARDINAL_USERNAME", OWNER).env("CARDINAL_PASSWORD", OWNER_PASSWORD);
    // The shared host lets its plugin `supplier` read pages of this machine.
    command.env("CARDINAL_PRIVATE_PAGES", "1").env("CI", "1");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    println!("{printed}");
}

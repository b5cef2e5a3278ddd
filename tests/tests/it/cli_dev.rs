//! `cardinal plugin dev`: an edit is live by itself, a bad one leaves what runs, and nothing is left behind.

use std::path::{Path, PathBuf};

use cardinal_tests::{Client, Program, cardinal_program, descendants, eventually, exited, lives};
use http::Method;
use rustix::process::Signal;
use serde_json::json;

use super::cli_author::{BUILDING, build_environment, edit, new, path};

/// A crate that is watched.
struct Dev {
    program: Program,
    crate_folder: PathBuf,
}

impl Dev {
    async fn start(folder: &Path) -> Dev {
        Self::of_crate(folder, new(folder, "notes", &[])).await
    }

    async fn of_crate(folder: &Path, crate_folder: PathBuf) -> Dev {
        let environment = build_environment().map(|(name, value)| (name, value.into_os_string()));
        // The first build may be one of all that the crate needs, and takes the time that it takes.
        let mut cargo = tokio::process::Command::new("cargo");
        cargo.args(["build", "--lib", "--offline", "--quiet"]).current_dir(&crate_folder).envs(environment.clone());
        assert!(cargo.status().await.unwrap().success());
        let kept = ["HOME", "POSTGRES_BIN_DIR", "CARGO_HOME", "RUSTUP_HOME"];
        let kept = kept.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let arguments = ["plugin", "dev", path(&crate_folder), "--listen", "127.0.0.1:0", "--", "--offline"];
        let log = folder.join("printed");
        let _ = std::fs::remove_file(&log); // of an earlier one
        let program = Program::start(&cardinal_program(), &arguments, environment.into_iter().chain(kept), &log);
        let dev = Dev { program, crate_folder };
        dev.prints("Watching for edits").await;
        dev
    }

    async fn prints(&self, text: &str) {
        eventually(&format!("it prints {text:?}"), async || self.program.printed().contains(text).then_some(())).await;
    }

    /// Changes a file, and waits until this text was printed once more.
    async fn edit(&self, file: &str, from: &str, to: &str, printed: &str) -> String {
        let file = self.crate_folder.join(file);
        let before = self.program.printed();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&file, text.replace(from, to)).unwrap();
        eventually(&format!("{printed:?} is printed after the edit"), async || {
            let printed_now = self.program.printed();
            let new = printed_now.get(before.len()..)?;
            let whole = new.ends_with('\n') && new.contains(printed);
            whole.then(|| new.to_owned())
        })
        .await
    }

    /// Runs the printed lines that ask for what a card has, in a shell, as the author does; the id of the card.
    fn asks_as_printed(&self) -> String {
        let printed = self.program.printed();
        let is_wanted = |line: &&str| line.starts_with("CARD=") || line.starts_with("curl ") && !line.contains(" -X ");
        let lines: Vec<&str> = printed.lines().filter(is_wanted).collect();
        let script = format!("set -eu\n{}\necho; echo \"$CARD\"", lines.join("\n"));
        let shell = std::process::Command::new("sh").arg("-c").arg(&script).output().unwrap();
        let answers = String::from_utf8(shell.stdout).unwrap();
        assert!(shell.status.success() && answers.contains(r#"{"items":[]}"#), "{script}\n{answers}");
        answers.lines().last().unwrap().to_owned()
    }

    /// A command as the author types it in the crate's folder: nothing names the host.
    fn beside(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = std::process::Command::new(cardinal_program());
        command.arg("plugin").args(arguments).current_dir(&self.crate_folder);
        command.env_remove("DATA_DIR").env_remove("CARDINAL_URL").env_remove("CARDINAL_API_KEY").output().unwrap()
    }

    fn client(&self) -> Client {
        let own = self.crate_folder.join("target/cardinal");
        let addresses: serde_json::Value =
            serde_json::from_slice(&std::fs::read(own.join("data/addresses.json")).unwrap()).unwrap();
        let key = std::fs::read_to_string(own.join("key")).unwrap();
        Client::new(addresses["listen"].as_str().unwrap().parse().unwrap()).bearer(key.trim())
    }
}

/// What the plugin says of an empty note stands in a crate beside it from here on.
fn take_a_sentence_from_beside(made: &Path) {
    let shared = made.with_file_name("shared");
    std::fs::create_dir_all(shared.join("src")).unwrap();
    let package = "[package]\nname = \"shared\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    std::fs::write(shared.join("Cargo.toml"), package).unwrap();
    std::fs::write(shared.join("src/lib.rs"), "pub const EMPTY: &str = \"A note has a text.\";\n").unwrap();
    let dependencies = "[dependencies]\n";
    edit(&made.join("Cargo.toml"), dependencies, &format!("{dependencies}shared = {{ path = \"../shared\" }}\n"));
    edit(&made.join("src/service.rs"), "\"A note has a text.\"", "shared::EMPTY");
}

#[tokio::test]
async fn an_edit_is_live_and_a_bad_one_leaves_what_runs() {
    let _building = BUILDING.write().await;
    let folder = tempfile::tempdir().unwrap();
    let made = new(folder.path(), "notes", &[]);
    take_a_sentence_from_beside(&made);
    let mut dev = Dev::of_crate(folder.path(), made).await;
    let client = dev.client();
    let card = dev.asks_as_printed();
    let notes = format!("/v1/admin/plugins/notes/cards/{card}");
    let refused = async |detail: &str| {
        let answer = client.post(&notes, &json!({"text": " "})).await;
        assert_eq!((answer.status.as_u16(), answer.json()["detail"].as_str()), (422, Some(detail)), "{answer}");
    };
    refused("A note has a text.").await;
    let (out, _) = exited(&dev.beside(&["settings", "notes"]), 0);
    assert!(out.contains("longest_note"), "{out}");
    exited(&dev.beside(&["logs", "notes"]), 0);
    let (out, _) = exited(&dev.beside(&["list"]), 0);
    assert!(out.lines().any(|line| line.starts_with("notes ") && line.contains(" active ")), "{out}");
    let new = dev.edit("../shared/src/lib.rs", "A note has a text.", "Write something.", "is live").await;
    assert!(new.contains("edit → live") && new.contains("build ") && new.contains("swap "), "{new}");
    assert!(!new.contains("WARN"), "what the author has just done is no news: {new}");
    refused("Write something.").await;

    let new = dev.edit("src/service.rs", "Ok(text)", "Ok(text", "did not compile").await;
    assert!(new.contains("unclosed delimiter") && new.contains("the running version stays"), "{new}");
    refused("Write something.").await;
    dev.edit("src/service.rs", "Ok(text", "Ok(text)", "no change to what runs").await;

    let new = dev.edit("manifest.json", r#""handler": "add""#, r#""handler": "ad""#, "did not compile").await;
    assert!(new.contains("there is no handler `ad` in src/; did you mean `add`?"), "{new}");
    // The code has a function of this name, which is no handler.
    let new = dev.edit("manifest.json", r#""handler": "ad""#, r#""handler": "checked""#, "was refused").await;
    assert!(new.contains("route-missing") && new.contains("the running version stays"), "{new}");
    refused("Write something.").await;
    dev.edit("manifest.json", r#""handler": "checked""#, r#""handler": "add""#, "is live").await;

    let new = dev.edit("frontend/plugin.js", "Noted", "Kept", "is live").await;
    assert!(!new.contains("build "), "a frontend file needs no compiler: {new}");
    let plugins = client.call(Method::GET, "/v1/admin/plugins").send().await.expect(200);
    let main = plugins["items"][0]["frontend"]["main_url"].as_str().unwrap().to_owned();
    assert!(client.get(&main).await.text().contains("Kept"), "{main}");

    let family = descendants(dev.program.pid());
    assert!(family.iter().any(|(_, line)| line.contains("serve")), "{family:?}");
    dev.program.signal(Signal::INT);
    assert!(dev.program.ended().await.success(), "{}", dev.program.printed());
    assert!(family.iter().all(|(pid, _)| !lives(*pid)), "{family:?}");

    let (_, err) = exited(&dev.beside(&["list"]), 69);
    assert!(["var/data", "target/cardinal/data"].iter().all(|folder| err.contains(folder)), "{err}");

    // The next time there is a card already.
    let mut dev = Dev::of_crate(folder.path(), dev.crate_folder).await;
    let printed = dev.program.printed();
    assert!(printed.contains(&format!("/cards/{card}'")) && !printed.contains("$CARD"), "{printed}");
    dev.program.signal(Signal::INT);
    dev.program.ended().await;
}

#[tokio::test]
async fn what_goes_wrong_is_printed_as_it_happens_and_with_its_line() {
    let _building = BUILDING.write().await;
    let folder = tempfile::tempdir().unwrap();
    let mut dev = Dev::start(folder.path()).await;
    let (client, card) = (dev.client(), dev.asks_as_printed());
    let notes = format!("/v1/admin/plugins/notes/cards/{card}");

    // A manifest that is none is told without the compiler.
    let new = dev.edit("manifest.json", r#""name": "notes","#, r#""name": "notes",,"#, "to do").await;
    assert!(new.contains("the running version stays") && new.contains("manifest.json:3:"), "{new}");
    assert!(!new.contains("did not compile"), "{new}");
    dev.edit("manifest.json", r#""name": "notes",,"#, r#""name": "notes","#, "no change to what runs").await;

    dev.edit("src/service.rs", "SELECT text FROM notes WHERE", "SELECT words FROM notes WHERE", "is live").await;
    client.get(&notes).await.refused(500, "internal-error");
    dev.prints(r#"column "words" does not exist"#).await;
    assert!(dev.program.printed().contains(" (at src/service.rs:"), "{}", dev.program.printed());

    let list = "service::list(&ctx, card_id).await?";
    let panics = format!("{list}; if card_id != Uuid::nil() {{ panic!(\"on purpose\") }}");
    dev.edit("src/routes.rs", list, &panics, "is live").await;
    dev.edit("src/service.rs", "SELECT words FROM notes WHERE", "SELECT text FROM notes WHERE", "is live").await;
    // One line for one panic: what the host says of the first would stand before the second.
    for count in 1..=2 {
        client.get(&notes).await.refused(500, "plugin-panicked");
        let panics = || dev.program.printed().matches("ERROR panicked at src/routes.rs:").count();
        eventually("the panic is printed", async || (panics() == count).then_some(())).await;
    }
    assert_eq!(dev.program.printed().matches("on purpose").count(), 2, "{}", dev.program.printed());

    let router = "    Router::new()";
    let fails = format!("    assert!(_ctx.name().is_empty(), \"no routes today\");\n{router}");
    let new = dev.edit("src/routes.rs", router, &fails, "to do").await;
    assert!(new.contains("create-panicked") && new.contains("no routes today (at src/routes.rs:"), "{new}");
    dev.edit("src/routes.rs", "no routes today", "nor later", "to do").await;
    assert_eq!(dev.program.printed().matches("no routes today").count(), 1, "{}", dev.program.printed());
    dev.program.signal(Signal::INT);
    assert!(dev.program.ended().await.success(), "{}", dev.program.printed());
}

#[tokio::test]
async fn its_host_ends_with_it_however_it_ends() {
    let _building = BUILDING.write().await;
    let folder = tempfile::tempdir().unwrap();
    let mut dev = Dev::start(folder.path()).await;
    let family = descendants(dev.program.pid());
    dev.program.signal(Signal::KILL);
    dev.program.ended().await;
    eventually("every process has ended", async || family.iter().all(|(pid, _)| !lives(*pid)).then_some(())).await;
}

#[test]
fn what_is_no_plugins_crate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, told) = exited(&cardinal_tests::cardinal(["plugin", "dev", path(folder.path())]), 1);
    assert!(told.contains("manifest.json is missing"), "{told}");
}

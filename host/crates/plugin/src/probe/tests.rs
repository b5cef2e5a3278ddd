#![allow(clippy::unwrap_used)]
use rustix::process::Pid;
use serde_json::json;

use super::*;
use crate::library::SealedLibrary;
use cardinal_package::refusal::Code;

fn prober(script: &str, limit: Duration) -> Prober {
    let arguments = ["-c", script].map(OsString::from).into();
    Prober::new(StartedBy::This(ProbeCommand { program: "/bin/sh".into(), arguments }), limit)
}

async fn run(script: &str, limit: Duration) -> Result<ProbeOutcome, Refusal> {
    prober(script, limit).try_out(SealedLibrary::seal(b"bytes").unwrap().fd(), &Map::new(), Priority::New).await
}

async fn tried(script: &str, secrets: &[&str]) -> SettingsTrial {
    let library = SealedLibrary::seal(b"bytes").unwrap();
    let (schema, settings) = (json!({"properties": {"secrets": {"writeOnly": true}}}), json!({"secrets": secrets}));
    let secrets = Secrets::from_settings(Some(&schema), [&settings], []);
    prober(script, LONG).try_settings(library.fd(), &Map::new(), &secrets).await
}

/// A shell's line that gives an answer.
fn answering(answer: &Answer) -> String {
    format!("echo '{ANSWER}{}'; ", serde_json::to_string(answer).unwrap().replace('\'', r"'\''"))
}

const LONG: Duration = Duration::from_secs(30);
/// For what never ends, once a busy machine has got it going.
const BRIEF: Duration = Duration::from_secs(5);

#[tokio::test]
async fn an_answer_counts_whatever_else_is_written() {
    let made = answering(&Answer::Made(r#"[{"name":"list","method":"GET","path":"/"}]"#.to_owned()));
    let script =
        format!("echo noise; echo more >&2; printf 'half\\n'; {}echo noise; {made}", answering(&Answer::Opened));
    let ProbeOutcome::Made(exports) = run(&script, LONG).await.unwrap() else { panic!("it was made") };
    assert_eq!(exports[0].describe(), "GET /");
    let refusal = probe_failed("told by the child");
    assert_eq!(run(&answering(&Answer::Refused(refusal.clone())), LONG).await, Err(refusal));
}

#[tokio::test]
async fn routes_that_give_no_router_are_no_reason_to_refuse_the_library() {
    let refusal = Refusal::new(Code::CreatePanicked, "It panicked.");
    let wrong_settings = vec![("/price".to_owned(), "is below 0".to_owned())];
    let answer = Answer::NotMade(refusal.clone(), wrong_settings.clone());
    let script = answering(&Answer::Opened) + &answering(&answer);
    assert_eq!(run(&script, LONG).await, Ok(ProbeOutcome::NotMade { refusal, wrong_settings }));
}

#[tokio::test]
async fn secrets_that_a_plugin_quotes_are_not_passed_on() {
    let secrets = ["OPERATORS-SECRET", "line\nbreak", "a"];
    let refusal = Refusal::new(Code::CreateFailed, "It failed.").found("OPERATORS-SECRET is no good");
    let wrong = vec![("/OPERATORS-SECRET".to_owned(), r#"of "line\nbreak" a part is bad"#.to_owned())];
    let answer = answering(&Answer::Opened) + &answering(&Answer::NotMade(refusal, wrong));
    let SettingsTrial::Refused(refusal, wrong) = tried(&answer, &secrets).await else { panic!("its own answer") };
    assert_eq!(refusal.found.as_deref(), Some("[secret] is no good"));
    assert_eq!(wrong, [("/[secret]".to_owned(), r#"of "[secret]" a part is bad"#.to_owned())]);
    let ended = answering(&Answer::Opened) + "echo 'boom: OPERATORS-SECRET' >&2; exit 3";
    let SettingsTrial::Broke(refusal) = tried(&ended, &secrets).await else { panic!("it ended by itself") };
    assert_eq!(refusal.found.as_deref(), Some("exited with status 3; it said: boom: [secret]"));
    // Whatever the library itself may write as an answer.
    let mut forged = Refusal::new(Code::ProbeFailed, "OPERATORS-SECRET");
    (forged.expected, forged.fix) = (Some("OPERATORS-SECRET".to_owned()), "OPERATORS-SECRET".to_owned());
    forged.losses = Box::new(["OPERATORS-SECRET".to_owned()]);
    let SettingsTrial::NotTried(refusal) = tried(&answering(&Answer::Refused(forged)), &secrets).await else {
        panic!("it did not open")
    };
    assert!(!format!("{refusal:?}").contains("OPERATORS"), "{refusal:?}");
}

#[tokio::test]
async fn a_secret_behind_a_lot_of_noise_is_not_shown_in_part() {
    let lines: Vec<String> = (0..26).map(|line| format!("{line:02}").repeat(32)).collect();
    let pem = format!("-----BEGIN KEY-----\n{}\n-----END KEY-----\n", lines.join("\n"));
    for noise in (2_400..4_100).step_by(17) {
        let mut complaint = Vec::new();
        let written = format!("{}\n{pem}", "n".repeat(noise));
        keep_beginning(written.as_bytes(), &mut complaint).await;
        let schema = json!({"properties": {"key": {"writeOnly": true}}});
        let secrets = Secrets::from_settings(Some(&schema), [&json!({"key": pem})], []);
        let shown = secrets.hide(&String::from_utf8_lossy(&complaint));
        assert!(!shown.contains(['0', '1', '2', 'K']), "{noise}: {shown}");
    }
}

#[tokio::test]
async fn what_others_did_to_the_process_is_not_the_plugins_answer() {
    let opened = answering(&Answer::Opened);
    for ended in ["kill -KILL $$", "kill -TERM $$", "exec >&- 2>&-; sleep 1000"] {
        let tried = tried(&(opened.clone() + ended), &[]).await;
        assert!(matches!(tried, SettingsTrial::NotTried(_)), "{ended}: {tried:?}");
    }
    assert!(matches!(tried("kill -SEGV $$", &[]).await, SettingsTrial::NotTried(_)), "it did not open");
    for ended in ["kill -ABRT $$", "kill -SEGV $$", "exit 0", "exit 3"] {
        let tried = tried(&(opened.clone() + ended), &[]).await;
        assert!(matches!(tried, SettingsTrial::Broke(_)), "{ended}: {tried:?}");
    }
}

#[tokio::test]
async fn a_starter_that_has_ended_is_not_the_plugins_answer() {
    let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
    let pipe = || tokio::net::unix::pipe::pipe().unwrap().1;
    let mut child = ProbeProcess::elsewhere(pipe(), pipe(), ours);
    drop(theirs);
    let failure = Failure::of_ended(&mut child, Step::Routes, "").await;
    assert!(failure.cause == Cause::Starter, "{}", failure.refusal);
}

#[tokio::test]
async fn a_probe_that_made_room_for_others_is_not_the_plugins_answer_either() {
    let (ours, mut theirs) = tokio::net::UnixStream::pair().unwrap();
    let pipe = || tokio::net::unix::pipe::pipe().unwrap().1;
    let mut child = ProbeProcess::elsewhere(pipe(), pipe(), ours);
    tokio::io::AsyncWriteExt::write_i32_le(&mut theirs, started::MADE_ROOM).await.unwrap();
    let failure = Failure::of_ended(&mut child, Step::Open, "").await;
    assert!(failure.cause == Cause::Starter, "{}", failure.refusal);
    assert!(failure.refusal.found.as_deref().unwrap().contains("left no room"), "{}", failure.refusal);
}

#[tokio::test]
async fn routes_that_end_or_hold_the_process_are_told_from_a_library_that_does_not_open() {
    let opened = answering(&Answer::Opened);
    let refusal = run(&format!("{opened} kill -SEGV $$"), LONG).await.unwrap_err();
    assert_eq!((refusal.code, refusal.found.as_deref()), (Code::ProbeFailed, Some("killed by SIGSEGV")));
    assert!(refusal.reason.contains("`routes`") && refusal.fix.contains("`routes`"), "{refusal}");
    let refusal = run(&format!("{opened} sleep 1000"), BRIEF).await.unwrap_err();
    assert_eq!((refusal.code, refusal.expected.as_deref()), (Code::CreateFailed, Some("done within 5 s")));
}

#[tokio::test]
async fn a_child_that_ends_without_an_answer_is_told_apart_by_how() {
    for (script, found) in [("exit 0", "exited with status 0"), ("kill -ABRT $$", "killed by SIGABRT")] {
        let refusal = run(script, LONG).await.unwrap_err();
        assert_eq!((refusal.code, refusal.found.as_deref()), (Code::ProbeFailed, Some(found)));
    }
    let refusal = run("echo first >&2; echo 'boom at 7' >&2; exit 3", LONG).await.unwrap_err();
    assert_eq!(refusal.found.as_deref(), Some("exited with status 3; it said: boom at 7"));
}

#[tokio::test]
async fn a_child_that_hangs_is_not_waited_for_nor_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
    let refusal = run(&script, BRIEF).await.unwrap_err();
    assert_eq!(refusal.found.as_deref(), Some("it was still busy"));
    let sleeper: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    let pid = Pid::from_raw(sleeper).unwrap();
    let gone = || match std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) {
        Ok(stat) => stat.contains(") Z "), // dead, and its new parent has not looked yet
        Err(_) => true,
    };
    for _ in 0..200 {
        if gone() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the child's child is still there");
}

#[tokio::test]
async fn a_child_that_closes_its_output_is_not_waited_for_either() {
    for script in ["exec >&-; sleep 1000", "exec >&- 2>&-; sleep 1000"] {
        let refusal = run(script, LONG).await.unwrap_err();
        assert_eq!(refusal.found.as_deref(), Some("closed its output and went on"), "{script}");
    }
}

#[tokio::test]
async fn the_child_has_its_settings_for_environment_and_the_library_as_input() {
    // The shell itself sets PWD and a few more; what the host has (PATH, HOME) is not there.
    let script = "test -z \"$HOME\" && test \"$CARDINAL_PROBE_SETTINGS\" = {} && \
                  test \"$(/bin/cat /proc/self/fd/0)\" = bytes && echo fine >&2; exit 3";
    let refusal = run(script, LONG).await.unwrap_err();
    assert_eq!(refusal.found.as_deref(), Some("exited with status 3; it said: fine"));
}

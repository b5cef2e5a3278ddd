use super::*;

/// A link and the supervisor's end of its socket.
fn pair() -> (SupervisorLink, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (SupervisorLink::over(theirs, SocketDir::open("localhost", 5432).unwrap()).unwrap(), ours)
}

fn send(socket: &mut UnixStream, message: &ToWorker) {
    socket.write_all(&frame::encode(message).unwrap()).unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn refused(found: &str) -> ProvisionFault {
    ProvisionFault::refused("schema-unsafe", "nothing", found, "remove it")
}

#[test]
fn answers_find_the_question_they_belong_to() {
    let (link, mut supervisor) = pair();
    let answering = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for _ in 0..2 {
            match read_message(&mut supervisor).unwrap() {
                ToSupervisor::Provision { id, request } => requests.push((id, request)),
                other => unreachable!("nobody said {other:?}"),
            }
        }
        // In the other order than asked.
        for (id, request) in requests.into_iter().rev() {
            send(&mut supervisor, &ToWorker::Provisioned { id, result: Err(refused(&request.plugin)) });
        }
        supervisor
    });
    let (one, other) =
        runtime().block_on(async { tokio::join!(link.provision("one", "00"), link.provision("other", "11")) });
    assert_eq!(one.unwrap_err(), refused("one"));
    assert_eq!(other.unwrap_err(), refused("other"));
    drop(answering.join().unwrap());
}

#[test]
fn a_supervisor_that_ends_fails_what_waits_and_drains() {
    let (link, supervisor) = pair();
    let waiting = link.clone();
    let asking = std::thread::spawn(move || runtime().block_on(waiting.provision("one", "00")));
    let mut supervisor = supervisor;
    let _: ToSupervisor = read_message(&mut supervisor).unwrap();
    drop(supervisor);
    assert_eq!(asking.join().unwrap().unwrap_err(), supervisor_gone());
    runtime().block_on(link.drained());
    assert!(matches!(runtime().block_on(link.provision("two", "00")), Err(ProvisionFault::Unavailable(_))));
}

#[test]
fn drain_reaches_every_clone() {
    let (link, mut supervisor) = pair();
    send(&mut supervisor, &ToWorker::Drain);
    let clone = link.clone();
    runtime().block_on(async { tokio::join!(link.drained(), clone.drained()) });
}

#[test]
fn a_message_that_claims_to_be_huge_ends_the_link() {
    let (link, mut supervisor) = pair();
    supervisor.write_all(&u32::MAX.to_le_bytes()).unwrap();
    runtime().block_on(link.drained());
}

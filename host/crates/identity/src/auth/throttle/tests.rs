use std::sync::Arc;

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

/// Another one each time.
fn guess() -> Secret {
    Secret::new(rand::random::<u64>().to_string())
}

async fn begin_from<'t>(
    throttle: &'t Throttle,
    address: IpAddr,
    name: &str,
    password: &Secret,
) -> Result<Attempt<'t>, AuthError> {
    throttle.begin(&throttle.enter(address, name, password)).await
}

async fn begin<'t>(throttle: &'t Throttle, name: &str) -> Result<Attempt<'t>, AuthError> {
    begin_from(throttle, HERE, name, &guess()).await
}

#[tokio::test(start_paused = true)]
async fn tries_in_parallel_get_no_further_than_tries_in_a_row() {
    let throttle = Arc::new(Throttle::default());
    let wrong = (0..160).map(|_| {
        let throttle = Arc::clone(&throttle);
        tokio::spawn(async move {
            let Ok(attempt) = begin(&throttle, "alice").await else { return 0 };
            tokio::time::sleep(Duration::from_millis(20)).await;
            attempt.failed();
            1
        })
    });
    let mut hashed = 0;
    for one in wrong.collect::<Vec<_>>() {
        hashed += one.await.unwrap();
    }
    assert_eq!(hashed, 5);
    assert_eq!(throttle.state().line.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn right_passwords_in_parallel_all_get_in() {
    let throttle = Arc::new(Throttle::default());
    let right = (0..wait_queue::MAX_HELD_PER_ADDRESS).map(|_| {
        let throttle = Arc::clone(&throttle);
        tokio::spawn(async move {
            let attempt = begin(&throttle, "alice").await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            attempt.succeeded();
        })
    });
    for one in right.collect::<Vec<_>>() {
        one.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_password_from_an_address_that_guessed_is_held_and_gets_in() {
    let throttle = Throttle::default();
    for i in 0..30 {
        begin(&throttle, &format!("user{i}")).await.unwrap().failed();
    }
    let started = Instant::now();
    begin(&throttle, "somebody").await.unwrap().succeeded();
    assert!((1_990..2_100).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    begin(&throttle, "somebody").await.unwrap().succeeded();
    assert!(started.elapsed() < Duration::from_secs(3), "known now");
}

#[tokio::test(start_paused = true)]
async fn who_hangs_up_has_tried_and_what_was_not_hashed_has_not() {
    let throttle = Throttle::default();
    for _ in 0..10 {
        begin(&throttle, "alice").await.unwrap().give_back();
    }
    for _ in 0..5 {
        drop(begin(&throttle, "alice").await.unwrap());
    }
    assert!(begin(&throttle, "alice").await.is_err());
}

/// Strangers at the same address guess at the same name without pause, several at a time.
#[tokio::test(start_paused = true)]
async fn a_right_password_gets_in_where_it_did_before_while_others_guess_there_without_pause() {
    let throttle = Arc::new(Throttle::default());
    begin(&throttle, "alice").await.unwrap().succeeded();
    let guessed = Arc::new(std::sync::atomic::AtomicU32::new(0));
    for _ in 0..3 {
        let (throttle, guessed) = (Arc::clone(&throttle), Arc::clone(&guessed));
        tokio::spawn(async move {
            loop {
                match begin(&throttle, "alice").await {
                    Ok(attempt) => {
                        guessed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        attempt.failed();
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = guessed.load(std::sync::atomic::Ordering::Relaxed);
    assert!(before <= 5 + 2 + 60 / 4 + 1, "{before} guesses in a minute");
    for _ in 0..5 {
        let started = Instant::now();
        loop {
            match begin(&throttle, "alice").await {
                Ok(attempt) => break attempt.succeeded(),
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
        assert!(started.elapsed() < Duration::from_secs(120), "{:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_place_comes_before_those_that_guess_at_the_name_from_everywhere() {
    let throttle = Arc::new(Throttle::default());
    for n in 0..100u8 {
        let throttle = Arc::clone(&throttle);
        tokio::spawn(async move {
            loop {
                match begin_from(&throttle, IpAddr::from([10, 0, 0, n]), "alice", &guess()).await {
                    Ok(attempt) => attempt.failed(),
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    let started = Instant::now();
    begin(&throttle, "alice").await.unwrap().succeeded();
    assert!(started.elapsed() <= Duration::from_secs(3), "{:?}", started.elapsed());
}

/// Contract 3.2: the victim's own address, which is not known yet, and more guessers than are held.
#[tokio::test(start_paused = true)]
async fn a_right_password_gets_in_at_a_new_place_where_forty_guess_at_its_name_without_pause() {
    let throttle = Arc::new(Throttle::default());
    for _ in 0..40 {
        let throttle = Arc::clone(&throttle);
        tokio::spawn(async move {
            loop {
                match begin(&throttle, "alice").await {
                    Ok(attempt) => attempt.failed(),
                    Err(_) => tokio::time::sleep(Duration::from_millis(250)).await,
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    for _ in 0..5 {
        let (started, right) = (Instant::now(), Secret::new("the right one".to_owned()));
        loop {
            match begin_from(&throttle, HERE, "alice", &right).await {
                // Given back, so that the place does not become known.
                Ok(attempt) => break attempt.give_back(),
                Err(_) => tokio::time::sleep(Duration::from_secs(10)).await,
            }
        }
        assert!(started.elapsed() <= Duration::from_secs(30), "{:?}", started.elapsed());
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

/// Tries until it may begin, as who honours `Retry-After` does; gives how long that took.
async fn comes_back(throttle: &Throttle, address: IpAddr, is_answered_after: Duration) -> Duration {
    let (started, right) = (Instant::now(), Secret::new("the right one".to_owned()));
    loop {
        match begin_from(throttle, address, "alice", &right).await {
            // Given back, so that the place does not become known.
            Ok(attempt) => {
                attempt.give_back();
                return started.elapsed();
            }
            Err(error) => {
                tokio::time::sleep(is_answered_after).await;
                let AuthError::TooOften { retry_after, .. } = error else { panic!("{error:?}") };
                let waited = u32::try_from(is_answered_after.as_secs()).unwrap();
                let wait = retry_after.saturating_sub(waited).max(1);
                tokio::time::sleep(Duration::from_secs(wait.into())).await;
            }
        }
    }
}

/// Refusals of an address that floods are sent late.
const LATE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_right_password_gets_in_where_two_thousand_guess_at_its_name_from_its_address() {
    let throttle = Arc::new(Throttle::default());
    for _ in 0..2_000 {
        let throttle = Arc::clone(&throttle);
        tokio::spawn(async move {
            loop {
                match begin(&throttle, "alice").await {
                    Ok(attempt) => attempt.failed(),
                    Err(_) => tokio::time::sleep(LATE).await,
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    for round in 0..10 {
        let took = comes_back(&throttle, HERE, LATE).await;
        assert!(took <= Duration::from_secs(30), "{took:?}");
        tokio::time::sleep(Duration::from_millis(20_000 + round * 1_700)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_password_gets_in_where_its_name_is_guessed_at_from_ever_new_addresses() {
    let throttle = Arc::new(Throttle::default());
    let next = Arc::new(std::sync::atomic::AtomicU32::new(0x0a00_0000));
    for _ in 0..500 {
        let (throttle, next) = (Arc::clone(&throttle), Arc::clone(&next));
        tokio::spawn(async move {
            loop {
                let new = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                match begin_from(&throttle, IpAddr::from(new.to_be_bytes()), "alice", &guess()).await {
                    Ok(attempt) => attempt.failed(),
                    Err(_) => tokio::time::sleep(Duration::from_millis(250)).await,
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    for round in 0..10 {
        let took = comes_back(&throttle, HERE, Duration::ZERO).await;
        assert!(took <= Duration::from_secs(15), "{took:?}");
        tokio::time::sleep(Duration::from_millis(20_000 + round * 1_700)).await;
    }
}

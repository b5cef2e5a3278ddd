//! Rounds of SIGKILL in the middle of writes, and a checker of what is left: what was acknowledged is there whole, and
//! a reader of events who comes back has missed nothing.

mod checker;
mod writers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardinal_tests::{EventStream, Host, Package, PluginsFolder, Sent, descendants, eventually};
use rustix::process::{Pid, Signal, kill_process};

use self::writers::Ground;

/// Before a host that is away is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// Chances that come again with their seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// SplitMix64.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn kill(pid: i32) {
    // It may have ended by itself.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

#[derive(Debug, Clone, Copy)]
enum Victim {
    Worker,
    Database,
    Host,
}

impl Victim {
    /// In turns, so that few rounds meet all.
    fn of_round(round: u64) -> Victim {
        [Victim::Worker, Victim::Database, Victim::Host][round as usize % 3]
    }
}

/// A reader who comes back whenever its stream breaks. All that it was told, in order.
struct Reader {
    told: Arc<Mutex<Vec<Sent>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Reader {
    async fn begin(ground: &Arc<Ground>) -> Reader {
        let told = Arc::new(Mutex::new(Vec::new()));
        let (ground, heard) = (Arc::clone(ground), Arc::clone(&told));
        let mut stream = EventStream::open(&ground.client(), "", None).await.greeted().await;
        let task = tokio::spawn(async move {
            loop {
                while let Ok(Some(sent)) = stream.try_next().await {
                    assert_ne!(sent.kind, "reset", "{sent:?}");
                    if sent.id.is_some() {
                        heard.lock().unwrap().push(sent);
                    }
                }
                let last_id = stream.last_id.clone();
                stream = loop {
                    match EventStream::try_open(&ground.client(), "", last_id.as_deref(), None).await {
                        Ok(stream) => break stream,
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                };
            }
        });
        Reader { told, task }
    }

    /// Waits until it has heard of everything, and looks whether anything was missing on the way.
    async fn has_heard_all(&self, database: &tokio_postgres::Client, when: &str) {
        let sql = "SELECT last FROM event_numbers WHERE NOT EXISTS (SELECT FROM event_outbox)";
        eventually("the reader has heard of everything", async || {
            assert!(!self.task.is_finished(), "{when}: the reader has ended");
            let last: i64 = database.query_opt(sql, &[]).await.unwrap()?.get(0);
            (self.told.lock().unwrap().last()?.id == Some(last)).then_some(())
        })
        .await;
        let told = self.told.lock().unwrap();
        let gap = told.windows(2).find(|pair| pair[1].id != pair[0].id.map(|id| id + 1));
        assert!(gap.is_none(), "{when}: {gap:?}");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn rounds(count: u64, seed: u64) {
    let mut dice = Dice::new(seed);
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let mut host = Host::settings().plugins(plugins).start().await;
    let ground = Ground::new(host.address(), host.owner().await.token.clone());
    let reader = Reader::begin(&ground).await;
    for round in 0..count {
        let victim = Victim::of_round(round);
        let when = format!("round {round} of seed {seed}, {victim:?} killed");
        let writers = ground.write(&mut dice);
        let before = ground.counts();
        eventually("every writer is at work", async || all_beyond(&ground, &before)).await;
        // Somewhere in the middle of what they are doing: that this is anywhere is the point.
        tokio::time::sleep(Duration::from_micros(dice.below(400_000))).await;
        host = strike(host, victim, &ground).await;
        // Answers that were on their way at the kill count for nothing: from here on they come after it.
        let database = eventually("the database takes sessions", async || host.try_database().await.ok()).await;
        let at_the_kill = ground.counts();
        eventually("everything serves again", async || {
            assert!(writers.iter().all(|writer| !writer.is_finished()), "{when}: a writer has ended");
            all_beyond(&ground, &at_the_kill)
        })
        .await;
        ground.stop();
        for writer in writers {
            writer.await.unwrap();
        }
        jobs_are_done(&database, &when).await;
        reader.has_heard_all(&database, &when).await;
        checker::check(&database, &ground.done(), &when).await;
    }
}

fn all_beyond(ground: &Ground, before: &[usize]) -> Option<()> {
    ground.counts().iter().zip(before).all(|(now, before)| now > before).then_some(())
}

async fn strike(mut host: Host, victim: Victim, ground: &Ground) -> Host {
    let family = descendants(host.supervisor_pid());
    let of = |word: &'static str| {
        let of_it = family.iter().filter(move |(_, line)| line.split(' ').any(|part| part.ends_with(word)));
        of_it.map(|(pid, _)| *pid).collect::<Vec<i32>>()
    };
    match victim {
        Victim::Worker => of("worker").into_iter().for_each(kill),
        Victim::Database => kill(host.postgres_pid()),
        Victim::Host => {
            family.iter().for_each(|(pid, _)| kill(*pid));
            kill(host.supervisor_pid());
            host.program().ended().await;
            host = host.again(|settings| settings).await;
            ground.moved_to(host.address());
        }
    }
    host
}

/// What was taken on before the kill is brought to its end by whoever comes after.
async fn jobs_are_done(database: &tokio_postgres::Client, when: &str) {
    let sql = "SELECT id::text, state FROM jobs WHERE state <> 'done'";
    eventually("the jobs are over", async || {
        let open = database.query(sql, &[]).await.unwrap();
        let state = |row: &tokio_postgres::Row| row.get::<_, String>(1);
        let odd = open.iter().find(|row| !["queued", "running"].contains(&state(row).as_str()));
        assert!(odd.is_none(), "{when}: job {odd:?}");
        open.is_empty().then_some(())
    })
    .await;
    let sql = "SELECT count(*) FROM card_history WHERE action = 'update' AND change ->> 'status' = 'archived'
               GROUP BY card_id HAVING count(*) <> 1";
    assert!(database.query(sql, &[]).await.unwrap().is_empty(), "{when}: a job did something twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_every_kill() {
    rounds(6, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: scripts/test --long"]
async fn what_was_acknowledged_outlives_fifty_kills() {
    rounds(50, 2).await;
}

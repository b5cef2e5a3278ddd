//! Every list of two large catalogues: what PostgreSQL works for one page, in each order. One has what lists find
//! hardest, and filters of five sorts; the other is a shop's.

mod filters;

use std::{collections::BTreeMap, fs, time::Duration};

use cardinal_tests::{Client, Host, descendants};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{Options, usage};
use filters::{ListFilter, MIXED, Since};

/// By this name it is asked for; it takes minutes, and no baseline.
pub(crate) const NAME: &str = "lists";
const SORTS: [&str; 8] = ["title", "-title", "sku", "-sku", "created_at", "-created_at", "updated_at", "-updated_at"];
const LIMIT: usize = 50;
/// After so long a host has forgotten how many cards a filter picks.
const FORGOTTEN_AFTER: Duration = Duration::from_millis(5_200);
/// After so long a session has ended the transaction of a list.
const SETTLED_AFTER: Duration = Duration::from_millis(2);
/// More than so long is late.
const BOUNDS: [Duration; 3] = [Duration::from_millis(5), Duration::from_millis(10), Duration::from_millis(20)];

/// Cards, and what their lists are filtered by.
struct Catalogue<'a> {
    name: &'static str,
    cards: &'static str,
    sources: &'static str,
    filters: &'a [ListFilter],
}

/// The least time of one list, over all rounds.
type Least = BTreeMap<(usize, &'static str), Duration>;

/// The lists of both catalogues, one after the other.
pub(crate) async fn measure(options: &Options) {
    let mixed = Catalogue {
        name: "mixed",
        cards: include_str!("lists/mixed_cards.sql"),
        sources: include_str!("lists/mixed_sources.sql"),
        filters: MIXED,
    };
    let shop = Catalogue {
        name: "shop",
        cards: include_str!("lists/shop_cards.sql"),
        sources: include_str!("lists/shop_sources.sql"),
        filters: &filters::shop(),
    };
    let mut all = Vec::new();
    for catalogue in [mixed, shop] {
        all.extend(catalogue.measure(options).await);
    }
    if let Some(file) = &options.json {
        fs::write(file, json!(all).to_string()).expect("the file for --json can be written");
    }
}

impl Catalogue<'_> {
    /// Fills a host of its own, reads each list once a round, and prints it.
    async fn measure(&self, options: &Options) -> Vec<Value> {
        let host = Host::settings().start().await;
        let newest = self.seed(&host, options.cards).await;
        let client = host.owner().await.unlimited().await;
        println!("load before: {}", load());
        let mut least = Least::new();
        for round in 1..=options.rounds {
            for sort in SORTS {
                let begun = Instant::now();
                for (number, asked) in self.filters.iter().enumerate() {
                    let used =
                        one(&host, &client, &format!("limit={LIMIT}&sort={sort}&{}", query(asked, newest))).await;
                    least.entry((number, sort)).and_modify(|least| *least = used.min(*least)).or_insert(used);
                }
                sleep_until(begun + FORGOTTEN_AFTER).await;
            }
            println!("load after round {round}: {}", load());
        }
        self.print(&least);
        let lists = least.iter().map(|((number, sort), used)| {
            let asked = &self.filters[*number];
            json!([self.name, asked.class, asked.named(), sort, millis(*used)])
        });
        lists.collect()
    }

    /// Makes the cards; the time of the newest change.
    async fn seed(&self, host: &Host, cards: i64) -> OffsetDateTime {
        let (database, begun) = (host.database().await, Instant::now());
        // Filling the lists' tables card by card takes longer than all at once.
        let triggers = |what: &str| {
            format!(
                "SET synchronous_commit = off; ALTER TABLE public.master_cards {what} TRIGGER USER; \
                 ALTER TABLE public.card_source_index {what} TRIGGER USER"
            )
        };
        database.batch_execute(&triggers("DISABLE")).await.unwrap();
        database.execute(self.cards, &[&cards]).await.unwrap();
        database.execute(self.sources, &[&cards]).await.unwrap();
        database.batch_execute(&triggers("ENABLE")).await.unwrap();
        database.execute("SELECT public.card_list_fill()", &[]).await.unwrap();
        for table in ["card_list_index", "card_words", "card_times", "master_cards", "card_source_index"] {
            database.batch_execute(&format!("VACUUM ANALYZE public.{table}")).await.unwrap();
        }
        database.batch_execute("CHECKPOINT").await.unwrap();
        eprintln!("    {cards} cards of the {} catalogue in {} s", self.name, begun.elapsed().as_secs());
        let newest = "SELECT to_char(max(updated_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM public.master_cards";
        OffsetDateTime::parse(database.query_one(newest, &[]).await.unwrap().get(0), &Rfc3339).unwrap()
    }

    fn print(&self, least: &Least) {
        let bounds: Vec<String> = BOUNDS.iter().map(|bound| format!("over {} ms", bound.as_millis())).collect();
        println!("\n| {} lists | number | {} | median | the worst |", self.name, bounds.join(" | "));
        println!("|---|--:|--:|--:|--:|--:|--:|");
        let mut classes: Vec<&str> = Vec::new();
        for asked in self.filters {
            if !classes.contains(&asked.class) {
                classes.push(asked.class);
            }
        }
        for class in classes {
            self.row(class, least.iter().filter(|((number, _), _)| self.filters[*number].class == class));
        }
        self.row("all", least.iter());
        println!("\nPostgreSQL's CPU time for one page of {LIMIT}, the least of all rounds.");
    }

    fn row<'a>(&self, name: &str, lists: impl Iterator<Item = (&'a (usize, &'static str), &'a Duration)>) {
        let mut lists: Vec<_> = lists.map(|((number, sort), used)| (*used, *number, *sort)).collect();
        lists.sort();
        let over = BOUNDS.map(|bound| lists.iter().filter(|(used, ..)| *used > bound).count().to_string());
        let (median, (worst, number, sort)) = (lists[lists.len() / 2].0, lists[lists.len() - 1]);
        println!(
            "| {name} | {} | {} | {:.1} ms | {:.1} ms: {}, by {sort} |",
            lists.len(),
            over.join(" | "),
            millis(median),
            millis(worst),
            self.filters[number].named()
        );
    }
}

/// What the core's sessions worked for one answer.
async fn one(host: &Host, client: &Client, query: &str) -> Duration {
    let before = sessions(host);
    client.get(&format!("/v1/admin/master-cards?{query}")).await.expect(200);
    // Time is booked when a session waits again.
    sleep(SETTLED_AFTER).await;
    sessions(host).iter().map(|(pid, used)| used.saturating_sub(before.get(pid).copied().unwrap_or_default())).sum()
}

fn sessions(host: &Host) -> BTreeMap<i32, Duration> {
    let family = descendants(host.postgres_pid());
    family.iter().filter(|(_, line)| line.contains("_core ")).map(|(pid, _)| (*pid, usage::run_time(*pid))).collect()
}

fn query(asked: &ListFilter, newest: OffsetDateTime) -> String {
    let Some(Since(seconds)) = asked.since else { return asked.query.to_string() };
    let since = (newest - Duration::from_secs(seconds)).format(&Rfc3339).unwrap();
    [&*asked.query, &format!("updated_since={since}")]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("&")
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

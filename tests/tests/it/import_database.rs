//! What the database does to an import, and to everything else that is written meanwhile: it refuses rows, goes away, has no
//! room left, is shared with another host.

use cardinal_tests::{Host, SmallDisk, eventually, unique};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    import::{NDJSON, ended, import, lines, meet, over},
    import_faults::{IMPORT, count, endless, fed, job_of},
};

const CARDS: &str = "/v1/admin/master-cards";
/// Room for a new cluster and a few thousand cards.
const SMALL: u64 = 160;

fn row(word: &str, n: usize) -> Value {
    json!({"title": "T", "sku": format!("{word}-{n:05}")})
}

#[tokio::test]
async fn a_row_that_only_the_database_refuses_takes_no_other_along() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    // An operator's own rule, of which the host knows nothing.
    let rule = "ALTER TABLE public.master_cards ADD CONSTRAINT no_evil CHECK (title <> 'evil')";
    host.database().await.batch_execute(rule).await.unwrap();
    for query in ["", "mode=upsert"] {
        let word = unique("rule");
        let mut rows: Vec<Value> = (0..5_000).map(|n| row(&word, n)).collect();
        for n in [0, 2_499, 2_500, 4_999] {
            rows[n]["title"] = "evil".into();
        }
        let job = import(owner, query, NDJSON, lines(&rows)).await;
        assert_eq!((ended(&job).as_str(), count(&host, &word).await), ("done 4996 4", 4_996), "{job}");
        let told: Vec<(i64, &str)> = job["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| (error["line"].as_i64().unwrap(), error["sku"].as_str().unwrap()))
            .collect();
        let skus = [0, 2_499, 2_500, 4_999].map(|n| format!("{word}-{n:05}"));
        assert_eq!(told, [(1, &*skus[0]), (2_500, &*skus[1]), (2_501, &*skus[2]), (5_000, &*skus[3])], "{job}");
    }
    let word = unique("rule");
    let rows = [row(&word, 0), json!({"title": "evil", "sku": format!("{word}-1")})];
    let job = import(owner, "atomic=true", NDJSON, lines(&rows)).await;
    assert_eq!((ended(&job).as_str(), count(&host, &word).await), ("failed 0 1", 0), "{job}");
}

#[tokio::test]
async fn an_import_goes_on_where_it_was_when_the_database_is_back() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let (word, request_id) = (unique("back"), unique("r"));
    let (sender, body) = fed();
    let call = owner.call(Method::POST, IMPORT).stream(NDJSON, body).header("x-request-id", &request_id);
    let sending = tokio::spawn(call.try_send());
    let piece = |number: usize| Ok(lines(&(0..1_000).map(|n| row(&word, number * 1_000 + n)).collect::<Vec<_>>()));
    sender.send(piece(0)).await.unwrap();
    let job = job_of(owner, &request_id, 1).await;
    for round in 0..3 {
        let server = host.postgres_pid();
        kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
        for number in 1..10 {
            sender.send(piece(round * 9 + number)).await.unwrap();
        }
        host.ready_on_another_postgres(server).await;
    }
    drop(sender);
    let job = over(owner, job["id"].as_str().unwrap()).await;
    assert_eq!((ended(&job).as_str(), count(&host, &word).await), ("done 28000 0", 28_000), "{job}");
    sending.await.unwrap().unwrap().expect(202);
}

#[tokio::test]
async fn two_hosts_import_the_same_rows_side_by_side() {
    let one = Host::settings().start().await;
    let two = one.beside().start().await;
    meet(&one, one.owner().await, two.owner().await).await;
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_acknowledged_and_all_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::new(SMALL) else { return };
    let host = Host::settings().folder(disk.folder()).start().await;
    let owner = host.owner().await;
    let (word, request_id) = (unique("full"), unique("r"));
    let mut kept = vec![owner.card("Before").await];
    let call = owner.call(Method::POST, IMPORT).stream(NDJSON, endless(&word)).header("x-request-id", &request_id);
    let sending = tokio::spawn(call.try_send());
    let job = job_of(owner, &request_id, 1).await;
    disk.fill();
    // Whoever writes now is told to come again, or it is there for good.
    let mut refused = 0;
    eventually("writes are refused", async || {
        match owner.post(CARDS, &json!({"title": "T", "sku": unique("FULL")})).await {
            answer if answer.status == 201 => kept.push(answer.json()["item"].clone()),
            answer => refused += usize::from(answer.refused(503, "database-unavailable")["status"] == 503),
        }
        (refused == 3).then_some(())
    })
    .await;
    assert_eq!(host.client().get("/healthz").await.status, 200);
    disk.make_room();
    host.ready_again().await;
    let id = job["id"].as_str().unwrap();
    owner.call(Method::POST, &format!("/v1/admin/jobs/{id}/cancel")).send().await;
    let job = over(owner, id).await;
    let _ = sending.await;
    assert_eq!(job["done"], count(&host, &word).await, "{job}");
    for card in kept {
        assert_eq!(owner.read_card(card["id"].as_str().unwrap()).await, card);
    }
    let job = import(owner, "", NDJSON, lines(&[row(&unique("after"), 0)])).await;
    assert_eq!(ended(&job), "done 1 0", "{job}");
}

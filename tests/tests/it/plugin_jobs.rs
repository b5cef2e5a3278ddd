//! Jobs of plugins: started by clients, plugins and the clock; their progress, errors, rights, and what a cancellation, a
//! swap and a killed worker do to them. The plugin is `echo`, whose job `count` counts.

use cardinal_tests::{Host, Package, PluginsFolder, User, eventually};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const JOBS: &str = "/v1/admin/jobs";

async fn host() -> Host {
    host_with(&Package::fixture("echo")).await
}

async fn host_with(echo: &Package) -> Host {
    Host::settings().plugins(PluginsFolder::default().with("echo", echo)).start().await
}

/// `echo` whose job `count` goes on after the death of its process.
fn resumable() -> Package {
    Package::fixture("echo").manifest(|manifest| manifest["backend"]["jobs"][0]["resumable"] = json!(true))
}

fn count(args: Value) -> Value {
    json!({"action": "plugin_job", "plugin": "echo", "name": "count", "args": args})
}

async fn start(user: &User, args: Value) -> String {
    let item = user.post(JOBS, &count(args)).await.expect(202)["item"].clone();
    item["id"].as_str().unwrap().to_owned()
}

/// The job as soon as it is as `wanted`. A worker that is being started again is waited for.
async fn job_when(user: &User, id: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || {
        let answer = user.call(Method::GET, &format!("{JOBS}/{id}")).try_send().await.ok()?;
        let job = (answer.status == 200).then(|| answer.json()["item"].clone())?;
        wanted(&job).then_some(job)
    })
    .await
}

async fn over(user: &User, id: &str) -> Value {
    job_when(user, id, "the job is over", |job| !["queued", "running"].contains(&job["state"].as_str().unwrap())).await
}

#[tokio::test]
async fn a_job_tells_how_far_it_is_what_failed_and_writes_as_its_starter() {
    let host = host().await;
    let owner = host.owner().await;
    let card = owner.card("Counted").await["id"].as_str().unwrap().to_owned();
    let id = start(owner, json!({"to": 4, "card": card})).await;
    let job = over(owner, &id).await;
    assert_eq!((&job["state"], &job["done"], &job["total"]), (&json!("done"), &json!(4), &json!(4)), "{job}");
    assert_eq!(
        (&job["plugin"], &job["name"], &job["message"]),
        (&json!("echo"), &json!("count"), &json!("Counted to 3"))
    );
    assert_eq!(job["failed"], 2);
    assert_eq!(job["errors"][1], json!({"line": 3, "code": "odd", "detail": "3 is odd."}), "{job}");
    let card = owner.get(&format!("/v1/admin/master-cards/{card}")).await.expect(200);
    let source = &card["item"]["attributes"]["sources"]["echo:count"];
    assert_eq!((&source["data"]["at"], &source["updated_by"]["id"]), (&json!(3), &json!(owner.id)), "{source}");

    // The plugin starts the same for who calls it.
    let started = owner.post("/v1/admin/plugins/echo/jobs", &json!({"to": 1})).await.expect(202);
    let job = over(owner, started["id"].as_str().unwrap()).await;
    assert_eq!((&job["state"], &job["started_by"]["id"]), (&json!("done"), &json!(owner.id)), "{job}");

    let id = start(owner, json!({"to": 4, "fail_at": 2})).await;
    let job = over(owner, &id).await;
    assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("It cannot count further.")), "{job}");
}

#[tokio::test]
async fn what_is_no_job_is_refused_where_it_is_wrong() {
    let host = host().await;
    let owner = host.owner().await;
    let mut unknown = count(json!({"to": 1}));
    unknown["name"] = json!("cuont");
    owner.post(JOBS, &unknown).await.refused(422, "validation-failed");
    owner.post(JOBS, &count(json!({"to": "x"}))).await.refused(422, "validation-failed");
    let mut cards = count(json!({"to": 1}));
    cards["ids"] = json!([]);
    owner.post(JOBS, &cards).await.refused(422, "validation-failed");
    let called = owner.post("/v1/admin/plugins/echo/jobs", &json!({"to": "x"})).await;
    assert!(called.status.is_server_error(), "the plugin's own mistake: {}", called.json());
}

#[tokio::test]
async fn a_job_is_cancelled_and_one_of_its_name_runs_at_a_time() {
    let host = host().await;
    let owner = host.owner().await;
    let first = start(owner, json!({"to": 3, "hold_at": 1})).await;
    let second = start(owner, json!({"to": 1})).await;
    job_when(owner, &first, "the job holds", |job| job["done"] == 1).await;
    assert_eq!(owner.get(&format!("{JOBS}/{second}")).await.expect(200)["item"]["state"], "queued");
    owner.post(&format!("{JOBS}/{first}/cancel"), &json!({})).await.expect(202);
    let job = over(owner, &first).await;
    assert_eq!((&job["state"], &job["done"]), (&json!("cancelled"), &json!(1)), "{job}");
    assert_eq!(over(owner, &second).await["state"], "done");
}

#[tokio::test]
async fn a_replaced_plugin_goes_on_from_the_checkpoint_or_is_interrupted() {
    let host = host().await;
    let owner = host.owner().await;
    let change = async |greeting: &str| {
        let settings = json!({"greeting": greeting});
        owner.call(Method::PUT, "/v1/admin/plugin-registry/echo/settings").json(&settings).send().await
    };
    let card = owner.card("Counted").await["id"].as_str().unwrap().to_owned();
    let id = start(owner, json!({"to": 3, "hold_at": 2, "saves": true, "card": card})).await;
    job_when(owner, &id, "the job holds", |job| job["done"] == 2).await;
    assert!(change("hallo").await.status.is_success());
    let job = over(owner, &id).await;
    assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(3)), "{job}");
    let card = owner.get(&format!("/v1/admin/master-cards/{card}")).await.expect(200);
    assert_eq!(card["item"]["attributes"]["sources"]["echo:count"]["data"], json!({"at": 2, "first": 2}));

    let id = start(owner, json!({"to": 3, "hold_at": 2})).await;
    job_when(owner, &id, "the job holds", |job| job["done"] == 2).await;
    assert!(change("moin").await.status.is_success());
    let job = over(owner, &id).await;
    assert_eq!((&job["state"], &job["done"]), (&json!("interrupted"), &json!(2)), "{job}");
}

#[tokio::test]
async fn a_killed_worker_leaves_an_interrupted_job() {
    let host = host().await;
    let owner = host.owner().await;
    let id = start(owner, json!({"to": 3, "hold_at": 2, "saves": true})).await;
    job_when(owner, &id, "the job holds", |job| job["done"] == 2).await;
    kill_process(Pid::from_raw(host.worker_pid()).unwrap(), Signal::KILL).unwrap();
    let job = over(owner, &id).await;
    assert_eq!((&job["state"], &job["done"]), (&json!("interrupted"), &json!(2)), "{job}");
    assert!(job["reason"].as_str().unwrap().starts_with("The host ended"), "{job}");
}

#[tokio::test]
async fn a_resumable_job_outlives_a_killed_worker() {
    let host = host_with(&resumable()).await;
    let owner = host.owner().await;
    let card = owner.card("Counted").await["id"].as_str().unwrap().to_owned();
    let id = start(owner, json!({"to": 4, "hold_at": 2, "saves": true, "card": card})).await;
    job_when(owner, &id, "the job holds", |job| job["done"] == 2).await;
    kill_process(Pid::from_raw(host.worker_pid()).unwrap(), Signal::KILL).unwrap();
    let job = over(owner, &id).await;
    assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(4)), "{job}");
    let card = owner.get(&format!("/v1/admin/master-cards/{card}")).await.expect(200);
    let counted = &card["item"]["attributes"]["sources"]["echo:count"]["data"];
    assert_eq!(counted["first"], 2, "it goes on from its checkpoint: {counted}");
}

#[tokio::test]
async fn of_two_hosts_one_runs_each_job_and_each_scheduled_run() {
    let one = host().await;
    let folder = || PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let two = one.beside().plugins(folder()).start().await;
    let (database, owner) = (one.database().await, one.owner().await);
    // Both have the plugin, and know its schedule.
    eventually("the other host serves the plugin too", async || {
        let serving = "SELECT count(DISTINCT host) FROM public.plugin_service WHERE plugin = 'echo'";
        (database.query_one(serving, &[]).await.unwrap().get::<_, i64>(0) == 2).then_some(())
    })
    .await;
    for night in 1..=5_i64 {
        let missed = "UPDATE public.plugin_schedules SET next_at = now() - interval '1 day' WHERE plugin = 'echo'";
        assert_eq!(database.execute(missed, &[]).await.unwrap(), 1);
        let id = start(owner, json!({"to": 3})).await;
        assert_eq!(over(owner, &id).await["done"], 3);
        let done = eventually("the night's job is done", async || {
            let runs = "SELECT count(*), min(runs), max(runs) FROM public.jobs WHERE plugin_job = 'nightly' AND state = 'done'";
            let row = database.query_one(runs, &[]).await.unwrap();
            (row.get::<_, i64>(0) >= night).then_some(row)
        })
        .await;
        assert_eq!((done.get::<_, i64>(0), done.get::<_, i32>(1), done.get::<_, i32>(2)), (night, 1, 1));
    }
    drop(two);
}

#[tokio::test]
async fn rights_that_are_gone_end_a_job() {
    let host = host().await;
    let owner = host.owner().await;
    let user = owner.make_user("editor").await;
    let id = start(&user, json!({"to": 3, "hold_at": 1})).await;
    job_when(owner, &id, "the job holds", |job| job["done"] == 1).await;
    owner.patch(&format!("/v1/admin/users/{}", user.id), &json!({"role": "viewer"})).await.expect(200);
    let job = over(owner, &id).await;
    assert_eq!(job["state"], "failed", "{job}");
    assert!(job["reason"].as_str().unwrap().contains("may no longer do it"), "{job}");
}

#[tokio::test]
async fn a_scheduled_run_that_was_missed_is_made_up_for_once_as_the_plugin() {
    let host = host().await;
    let owner = host.owner().await;
    let database = host.database().await;
    let nightly = async || {
        let registered = owner.get("/v1/admin/plugin-registry/echo").await.expect(200);
        let jobs = registered["item"]["jobs"].as_array().unwrap().clone();
        jobs.into_iter().find(|job| job["name"] == "nightly").unwrap()
    };
    eventually("the schedule is known", async || nightly().await["schedule"]["next_at"].as_str().map(drop)).await;
    // What plugins that are gone have left is in nobody's way.
    let gone = "INSERT INTO public.plugin_schedules (plugin, job, cron, next_at) \
                SELECT 'gone-' || n, 'nightly', '0 0 * * *', now() - interval '1 year' FROM generate_series(1, 200) n";
    database.execute(gone, &[]).await.unwrap();
    // Three nights were missed.
    let missed = "UPDATE public.plugin_schedules SET next_at = now() - interval '3 days' WHERE plugin = 'echo'";
    database.execute(missed, &[]).await.unwrap();
    let job = eventually("the missed run is made up for", async || {
        let job = nightly().await;
        (job["schedule"]["last_state"] == "done").then_some(job)
    })
    .await;
    let runs: i64 =
        database.query_one("SELECT count(*) FROM public.jobs WHERE plugin_job = 'nightly'", &[]).await.unwrap().get(0);
    assert_eq!(runs, 1);
    let is_ahead: bool = database
        .query_one("SELECT next_at > now() FROM public.plugin_schedules WHERE plugin = 'echo'", &[])
        .await
        .unwrap()
        .get(0);
    assert!(is_ahead);
    let id = job["schedule"]["last_job"].as_str().unwrap();
    let run = owner.get(&format!("{JOBS}/{id}")).await.expect(200)["item"].clone();
    assert_eq!((&run["started_by"]["kind"], &run["message"]), (&json!("plugin"), &json!("Nightly")), "{run}");
}

#[tokio::test]
async fn a_schedule_is_gone_with_the_plugins_data_and_known_again_when_it_serves() {
    let host = host().await;
    let owner = host.owner().await;
    let database = host.database().await;
    let act =
        async |act: &str| owner.post(&format!("/v1/admin/plugin-registry/echo/{act}"), &json!({})).await.expect(200);
    let known = async || {
        let known = "SELECT count(*) FROM public.plugin_schedules WHERE plugin = 'echo'";
        database.query_one(known, &[]).await.unwrap().get::<_, i64>(0) == 1
    };
    eventually("the schedule is known", async || known().await.then_some(())).await;
    act("disable").await;
    let data = owner.call(Method::DELETE, "/v1/admin/plugin-registry/echo/data").json(&json!({"confirm": "echo"}));
    data.send().await.expect(204);
    assert!(!known().await);
    act("enable").await;
    eventually("the schedule is known again", async || known().await.then_some(())).await;
}

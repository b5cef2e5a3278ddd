use super::*;

fn backend(jobs: Value, schedule: Value) -> Value {
    let mut manifest = minimal();
    manifest["backend"] = json!({"jobs": jobs, "schedule": schedule});
    manifest
}

#[test]
fn jobs_and_their_times_are_read_with_what_is_usual() {
    let jobs = json!([{"name": "refresh", "title": "Refresh", "args_schema": {"properties": {}}, "scope": "read",
        "timeout_minutes": 5, "resumable": true}, {"name": "tidy-up"}]);
    let times = json!([{"job": "tidy-up", "cron": "15 3 * * *", "jitter_seconds": 60}]);
    let (manifest, warnings) = read(&backend(jobs, times)).unwrap();
    assert_eq!(warnings, []);
    let [refresh, tidy_up] = manifest.jobs() else { panic!("two jobs: {:?}", manifest.jobs()) };
    assert_eq!((refresh.timeout, refresh.access(), refresh.resumable), (Duration::from_secs(300), Access::Read, true));
    assert_eq!(refresh.args_schema.as_ref().unwrap()["type"], "object");
    assert_eq!(
        (tidy_up.timeout, tidy_up.access(), tidy_up.resumable),
        (Duration::from_secs(3600), Access::Write, false)
    );
    assert_eq!((tidy_up.handler().as_str(), manifest.schedule()[0].job.as_str()), ("job:tidy-up", "tidy-up"));
}

#[test]
fn what_is_wrong_with_jobs_is_told_with_its_place() {
    for (jobs, times, place) in [
        (json!([{}]), json!([]), "/backend/jobs/0/name"),
        (json!([{"name": "Refresh"}]), json!([]), "/backend/jobs/0/name"),
        (json!([{"name": "a"}, {"name": "a"}]), json!([]), "/backend/jobs/1"),
        (json!([{"name": "a", "timeout_minutes": 1441}]), json!([]), "/backend/jobs/0/timeout_minutes"),
        (json!([{"name": "a", "args_schema": []}]), json!([]), "/backend/jobs/0/args_schema"),
        (json!([{"name": "a", "scope": "all"}]), json!([]), "/backend/jobs/0/scope"),
        (json!([{"name": "a"}]), json!([{"job": "b", "cron": "* * * * *"}]), "/backend/schedule/0/job"),
        (json!([{"name": "a"}]), json!([{"job": "a", "cron": "@daily"}]), "/backend/schedule/0/cron"),
        (json!([{"name": "a"}]), json!([{"job": "a"}]), "/backend/schedule/0/cron"),
        (
            json!([{"name": "a"}]),
            json!([{"job": "a", "cron": "* * * * *", "jitter_seconds": 3601}]),
            "/backend/schedule/0/jitter_seconds",
        ),
        (
            json!([{"name": "a"}]),
            json!([{"job": "a", "cron": "* * * * *"}, {"job": "a", "cron": "0 * * * *"}]),
            "/backend/schedule/1",
        ),
    ] {
        let Problems(problems) = read(&backend(jobs.clone(), times.clone())).unwrap_err();
        assert!(problems.iter().any(|problem| problem.pointer == place), "{jobs} {times}: {problems:?}");
    }
}

//! Contract 7: settings are judged before a port is bound; a bad one names itself.

use cardinal_tests::Host;

#[tokio::test]
async fn a_bad_setting_names_itself_and_ends_the_start() {
    for (name, value) in [
        ("LISTEN_ADDR", "everywhere"),
        ("BASE_URL", "http://host.example/path"),
        ("ADMIN_TOKEN_TTL_HOURS", "0"),
        ("ADMIN_TOKEN_TTL_HOURS", "8761"),
        ("API_KEY_RATE_PER_MINUTE", "many"),
        ("PLUGIN_TRUST", "maybe"),
        ("TRUSTED_PROXIES", "10.0.0.0/40"),
        ("SHUTDOWN_GRACE_SECONDS", "-1"),
        ("DATABASE_URL", "mysql://root:hunter2@db/x"),
        ("ADMIN_TOKEN_SECRET", "hunter2"),
        ("PLUGIN_SETTINGS_SUPPLIER", "{not json"),
    ] {
        let mut host = Host::settings().set(name, value).launch();
        let status = host.program().ended().await;
        assert_eq!(status.code(), Some(64), "{name}={value}: {}", host.log());
        let log = host.log();
        assert!(log.contains(name), "{name}={value} is not named: {log}");
        assert!(!log.contains("hunter2"), "a secret is printed: {log}");
        assert!(!host.data().join("addresses.json").exists(), "{name}={value}: a port was bound");
    }
}

#[tokio::test]
async fn all_bad_settings_are_named_at_once() {
    let mut host = Host::settings().set("ADMIN_TOKEN_TTL_HOURS", "0").set("LOG_FORMAT", "loud").launch();
    assert_eq!(host.program().ended().await.code(), Some(64));
    let log = host.log();
    assert!(log.contains("ADMIN_TOKEN_TTL_HOURS") && log.contains("LOG_FORMAT"), "{log}");
}

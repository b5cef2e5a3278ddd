//! Calls and what they are answered.

use cardinal_plugin::{
    __private::abi::{Slice, error as codes, pairs, record::attr},
    json, serde_json,
};

use super::{
    fake_host::{USER, lock, request},
    plugin::{Echo, Instance, json_of},
};

#[test]
fn a_library_says_what_it_is() {
    let module = cardinal_plugin::__private::module::<Echo>();
    let about: serde_json::Value = serde_json::from_slice(module.describe()().get()).unwrap();
    assert_eq!((about["name"].as_str(), about["version"].as_str()), (Some("echo"), Some("1.2.3")));
    assert!(about["rustc"].as_str().unwrap().starts_with("rustc 1."));
    assert!(module.get_extension()(u32::MAX).is_null(), "one that nobody knows");
}

#[test]
fn an_instance_lists_its_handlers_in_the_order_of_their_numbers() {
    let exports = Instance::new().exports();
    assert_eq!(exports[0], json!({ "name": "hello" }), "a name that the author gave comes first");
    assert_eq!(exports[1], json!({ "name": "hello", "method": "GET", "path": "/hello" }));
    assert_eq!(exports[2], json!({ "name": "seen", "method": "POST", "path": "/seen/{a}/{*rest}" }));
}

#[test]
fn a_call_is_answered_with_status_headers_and_body() {
    let plugin = Instance::new();
    let reply = plugin.get("/hello").unwrap();
    assert_eq!(reply.status, 201);
    let headers: Vec<_> = pairs::read(reply.headers.get()).unwrap().collect();
    assert_eq!(headers, [(&b"content-type"[..], &b"application/json"[..]), (b"x-echo", b"1")]);
    assert_eq!(json_of(&reply), json!({ "hello": "echo", "version": "1.2.3", "tool": false }));
}

#[test]
fn a_handler_sees_all_of_a_request() {
    let plugin = Instance::new();
    let head = [
        (attr::METHOD, "POST"),
        (attr::PATH, "/seen/x/y%20z"),
        (attr::QUERY, "q=1&n=2"),
        (attr::REQUEST_ID, "r-1"),
        (attr::TRACE_PARENT, "00-1"),
        (attr::PEER, "::1"),
        (attr::DEADLINE_MS, "5000"),
        (9999, "of a later host"),
    ];
    let mut sent = request(&head, "{\"n\": 3}");
    sent.headers = pairs::write([(&b"x-some"[..], &b"v"[..]), (b"x-bytes", b"\xff")]).into();
    sent.params = pairs::write([(&b"a"[..], &b"x"[..]), (b"rest", b"y z")]).into();
    let seen = json_of(&plugin.call("/seen/{a}/{*rest}", sent).unwrap());
    let expected = json!({
        "method": "POST", "path": "/seen/x/y%20z", "query": "q=1&n=2", "a": "x", "header": "v", "headers": 1,
        "id": "r-1", "peer": "::1", "trace": "00-1", "deadline": true,
        "input": { "a": "x", "rest": "y z", "q": "1", "n": 3 },
    });
    assert_eq!(seen, expected);
}

#[test]
fn a_host_that_says_less_is_understood() {
    let plugin = Instance::new();
    let seen = json_of(&plugin.call("/seen/{a}/{*rest}", request(&[], "")).unwrap());
    assert_eq!((&seen["method"], &seen["path"], &seen["deadline"]), (&json!("POST"), &json!("/"), &json!(false)));
    let tool = plugin.begin(0, 1, request(&[(attr::CALL_KIND, "tool")], "{}"));
    assert_eq!(json_of(&cardinal_plugin::block_on(tool).unwrap())["tool"], json!(true));
}

#[test]
fn what_is_malformed_is_refused_before_the_handler_runs() {
    let plugin = Instance::new();
    let mut bad_params = request(&[], "");
    bad_params.params = vec![0xff; 9].into();
    let mut bad_path = request(&[], "");
    bad_path.head = cardinal_plugin::__private::abi::record::write(&[(attr::PATH, b"/\xff")]).into();
    for bad in [bad_params, bad_path, request(&[(attr::METHOD, "G E T")], "")] {
        assert_eq!(plugin.call("/hello", bad).unwrap_err().code, codes::INTERNAL);
    }
    let nobody = cardinal_plugin::block_on(plugin.begin(4711, 1, request(&[], "")));
    assert_eq!(nobody.unwrap_err().code, codes::BAD_HANDLE);
}

#[test]
fn errors_for_the_client_and_errors_for_the_log_cross_apart() {
    let plugin = Instance::new();
    let error = plugin.get("/error").unwrap_err();
    let details: serde_json::Value = serde_json::from_slice(error.details.get()).unwrap();
    assert_eq!((error.code, error.text().as_str()), (codes::REPLY, "It is taken."));
    let errors = json!([{ "pointer": "/sku", "detail": "exists" }]);
    assert_eq!(details, json!({ "status": 409, "code": "conflict", "errors": errors }));
    let error = plugin.get("/internal").unwrap_err();
    assert_eq!((error.code, error.flags), (codes::INTERNAL, 0));
    assert_eq!(error.text(), "invalid digit found in string");
}

#[test]
fn the_calling_user_is_known_in_a_call_and_only_there() {
    let plugin = Instance::new();
    let head = [
        (attr::USER_ID, USER),
        (attr::USER_KIND, "api_key"),
        (attr::USER_NAME, "Ada"),
        (attr::SCOPES, "cards:read plugin:*:write"),
    ];
    let user = json_of(&plugin.call("/user", request(&head, "")).unwrap());
    let scopes = ["cards:read", "plugin:*:write"];
    assert_eq!(user, json!({ "id": USER, "name": "Ada", "kind": "api_key", "scopes": scopes }));
    let later = [(attr::USER_ID, USER), (attr::USER_KIND, "of a later host")];
    assert_eq!(json_of(&plugin.call("/user", request(&later, "")).unwrap())["kind"], "unknown");
    let nobody = request(&[(attr::USER_ID, "")], "");
    assert_eq!(plugin.call("/user", nobody).unwrap_err().code, codes::INTERNAL);
    assert!(plugin.context().user().is_err());
    let own = cardinal_plugin::block_on(plugin.context().service_user()).unwrap();
    assert_eq!(own.kind, cardinal_plugin::UserKind::Plugin);
}

#[test]
fn cards_are_read_written_and_listed() {
    let plugin = Instance::new();
    let reply = json_of(&plugin.call("/card", request(&[(attr::USER_ID, USER)], "")).unwrap());
    assert_eq!(
        reply,
        json!({
            "version": 4, "title": "Lamp", "kinds": 1, "next": null, "removed": 5,
            "options": "ConnectOptions(u@/run:5432/d)", // no password
        })
    );
    let journal = plugin.host.journal();
    assert!(journal.contains(&"enrich 1 echo:a echo {\"n\":1}".to_owned()), "{journal:?}");
    assert!(journal.contains(&"list {\"kind\":\"echo\",\"limit\":5}".to_owned()), "{journal:?}");
    assert!(journal.contains(&"metric 1 n 2 {\"k\":\"v\"}".to_owned()), "{journal:?}");
    let reports: Vec<&String> = journal.iter().filter(|line| line.starts_with("progress")).collect();
    assert_eq!(reports, ["progress 1 1 of 2 half done", "progress 1 1.5 of NaN "]);
    let log = lock(&plugin.host.log);
    assert!(
        log.iter().any(|line| (line.level, line.call, &*line.message, &*line.fields) == (2, 1, "careful", "{\"a\":1}"))
    );
}

#[test]
fn what_the_host_refuses_can_be_passed_on() {
    let plugin = Instance::new();
    let mut refusal = cardinal_plugin::__private::abi::Error::new(codes::REFUSED, "not declared");
    refusal.details = String::from("{\"code\": \"kind-not-declared\"}").into();
    lock(&plugin.host.failing).insert("enrich_card".to_owned(), refusal);
    let error = plugin.call("/card", request(&[], "")).unwrap_err();
    assert_eq!(
        (error.code, Slice::new(error.details.get()).as_text()),
        (codes::REFUSED, Some("{\"code\":\"kind-not-declared\"}"))
    );
}

#[test]
fn settings_that_do_not_fit_are_an_error() {
    let plugin = Instance::new();
    assert!(plugin.context().settings::<Vec<u8>>().is_err());
    *lock(&plugin.host.settings) = String::new();
    assert_eq!(plugin.context().settings::<serde_json::Value>().unwrap(), json!({}));
}

//! Pages, list columns and card actions, and the JSON Schema for editors.

use serde_json::json;

use super::{
    super::contributes::{ActionPlace, ColumnValues},
    *,
};

pub(super) fn contributing() -> Value {
    let contributes = json!({
        "cardTabs": [{"id": "prices", "label": "Prices"}, {"id": "chart", "label": "Chart", "frame": true}],
        "pages": [{"id": "price-report", "label": "Price report", "icon": "chart"}],
        "listColumns": [{"id": "lowest", "label": "Lowest", "kind": "price", "value": "/lowest/0", "format": "number"}],
        "cardActions": [
            {"id": "refresh", "label": "Refresh", "route": {"path": "/refresh"}, "confirm": "Ask all shops?"},
            {"id": "compare", "label": "Compare", "on": ["selection"]}],
    });
    let route = json!({"method": "POST", "path": "/refresh"});
    with(with(valid(), "/contributes", Some(contributes)), "/backend/routes/1", Some(route))
}

fn problem_at(pointer: &str, value: Option<Value>) -> (String, Code, String) {
    let Problems(problems) = read(&with(contributing(), pointer, value)).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = problems.into_iter().next().unwrap();
    (problem.pointer, problem.code, problem.expected)
}

#[test]
fn contributions_are_read_with_their_defaults() {
    let (manifest, warnings) = read(&contributing()).unwrap();
    assert_eq!(warnings, []);
    let Contributes { card_tabs, pages, list_columns, card_actions } = &manifest.contributes;
    assert_eq!(card_tabs.iter().map(|tab| tab.frame).collect::<Vec<_>>(), [false, true]);
    assert_eq!((pages[0].id.as_str(), pages[0].icon.as_deref()), ("price-report", Some("chart")));
    let expected = ColumnValues::Sources { kind: "price".to_owned(), value: "/lowest/0".to_owned() };
    assert_eq!(list_columns[0].values, expected);
    let [refresh, compare] = card_actions.as_slice() else { panic!("{card_actions:?}") };
    let route = refresh.route.as_ref().unwrap();
    assert_eq!((route.method.as_str(), route.path.as_str()), ("POST", "/refresh"));
    assert_eq!(refresh.on, [ActionPlace::Card, ActionPlace::Selection]);
    assert_eq!((compare.on.as_slice(), compare.route.as_ref()), (&[ActionPlace::Selection][..], None));
}

#[test]
fn what_a_contribution_says_wrong_is_named_with_its_place() {
    let wrong = [
        ("/contributes/cardTabs/1/frame", json!("true")),
        ("/contributes/pages/0/id", json!("Price Report")),
        ("/contributes/pages/0/label", json!("")),
        ("/contributes/listColumns/0/kind", json!("supplier")),
        ("/contributes/listColumns/0/value", json!("lowest")),
        ("/contributes/listColumns/0/value", json!("/a~2")),
        ("/contributes/listColumns/0/format", json!("money")),
        ("/contributes/cardActions/0/on", json!([])),
        ("/contributes/cardActions/0/route/method", json!("GET")),
        ("/contributes/cardActions/0/route/path", json!("/items/{id}")),
        ("/contributes/cardActions/0/route/path", json!("refresh")),
    ];
    for (pointer, value) in wrong {
        let (place, code, _) = problem_at(pointer, Some(value.clone()));
        assert_eq!((place.as_str(), code), (pointer, Code::BadManifest), "{value}");
    }
    assert_eq!(problem_at("/contributes/cardActions/1/on/0", Some(json!("row"))).1, Code::BadManifest);
    assert_eq!(
        problem_at("/contributes/cardActions/1/confirm", Some(json!("Sure?"))).0,
        "/contributes/cardActions/1/confirm"
    );
}

#[test]
fn an_action_calls_a_route_that_is_there() {
    let place = |pointer: &str, value| problem_at(pointer, value).0;
    let route = "/contributes/cardActions/0/route";
    assert_eq!(place("/contributes/cardActions/0/route/path", Some(json!("/other"))), route);
    assert_eq!(place("/contributes/cardActions/0/route/method", Some(json!("PUT"))), route);
    assert_eq!(place("/backend", None), route);
    // Without a list of routes the library decides.
    read(&with(contributing(), "/backend/routes", None)).unwrap();
}

#[test]
fn a_columns_values_come_from_its_sources_or_from_a_route() {
    let scores = json!({"method": "GET", "path": "/scores"});
    let around = with(contributing(), "/backend/routes/0", Some(scores));
    let column = |column: Value| with(around.clone(), "/contributes/listColumns/0", Some(column));
    let routed = json!({"id": "score", "label": "Score", "route": "/scores", "format": "percent"});
    let (manifest, warnings) = read(&column(routed.clone())).unwrap();
    let listed = serde_json::to_value(&manifest.contributes.list_columns[0]).unwrap();
    assert_eq!((listed, warnings), (routed.clone(), vec![]));
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&column(routed.clone())));
    for (name, value) in [("route", "/refresh"), ("route", "/items/{id}"), ("kind", "price"), ("value", "/x")] {
        let mut wrong = routed.clone();
        wrong[name] = json!(value);
        let Problems(problems) = read(&column(wrong)).unwrap_err();
        let place = format!("/contributes/listColumns/0/{name}");
        assert_eq!((problems[0].pointer.as_str(), problems.len()), (place.as_str(), 1), "{value}");
    }
}

#[test]
fn ids_are_unique_in_their_list() {
    for list in ["pages", "listColumns", "cardActions"] {
        let first = contributing()["contributes"][list][0].clone();
        let at = format!("/contributes/{list}/1");
        assert_eq!(problem_at(&at, Some(first)).1, Code::DuplicateContribution, "{list}");
    }
}

#[test]
fn columns_and_actions_with_a_route_need_no_frontend() {
    let declarative = json!({
        "listColumns": [{"id": "c", "label": "C", "kind": "price", "value": "/v"}],
        "cardActions": [{"id": "a", "label": "A", "route": {"path": "/refresh"}}]});
    let alone = with(with(contributing(), "/contributes", Some(declarative)), "/frontend", None);
    read(&alone).unwrap();
    let with_main = with(alone, "/frontend", Some(json!({"main": "plugin.js"})));
    assert_eq!(read(&with_main).unwrap_err().0[0].pointer, "/contributes");
    let drawn = with(with(minimal(), "/contributes", Some(json!({"pages": [{"id": "p", "label": "P"}]}))), "/x", None);
    assert_eq!(read(&drawn).unwrap_err().0[0].pointer, "/frontend");
}

#[test]
fn the_schema_for_editors_agrees_with_the_reader() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for good in [valid(), minimal(), contributing()] {
        assert!(validator.is_valid(&good), "{:?}", validator.iter_errors(&good).next());
        read(&good).unwrap();
    }
    // Whatever stands at one place of a manifest: what the reader takes, the schema takes.
    let mut pointers = Vec::new();
    places(&contributing(), String::new(), &mut pointers);
    let values =
        [json!(null), json!(true), json!(7), json!(""), json!("Some text"), json!([]), json!({}), json!("a-b")];
    let mut refused_by_both = 0;
    // Another plugin API is refused by `check_engine`.
    pointers.retain(|pointer| pointer != "/engine/plugin_api_version");
    for pointer in &pointers {
        for value in &values {
            let mut document = contributing();
            *document.pointer_mut(pointer).unwrap() = value.clone();
            match (read(&document).is_ok(), validator.is_valid(&document)) {
                (true, false) => panic!("{pointer} = {value} is good, and the schema refuses it"),
                (false, false) => refused_by_both += 1,
                _ => {}
            }
        }
    }
    assert!(refused_by_both > pointers.len() * 3, "the schema refuses next to nothing: {refused_by_both}");
    // Every field that the reader knows is described.
    let properties = schema["properties"].as_object().unwrap();
    for name in contributing().as_object().unwrap().keys() {
        assert!(properties.contains_key(name), "{name}");
    }
}

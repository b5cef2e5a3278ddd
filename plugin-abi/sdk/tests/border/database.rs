//! Statements, rows and transactions.

use cardinal_plugin::{
    __private::abi::{self, error as codes, values},
    Connection, Error, Row, Uuid, block_on,
    bytes::Bytes,
    futures::{StreamExt, stream},
    json,
    postgres::{Json, Type},
    serde_json::Value,
    time::OffsetDateTime,
};

use super::{
    fake_host::{FakeHost, lock},
    plugin::{Instance, poll},
};

fn simple(of: &Type) -> Value {
    json!({ "oid": of.oid(), "name": of.name(), "schema": "pg_catalog", "kind": "simple" })
}

/// Lays down what a statement takes and gives.
fn statement(host: &FakeHost, sql: &str, params: Vec<Value>, columns: Vec<(&str, Value)>) {
    let columns: Vec<_> = columns.into_iter().map(|(name, of)| json!({ "name": name, "type": of })).collect();
    let prepared = json!({ "statement": 11, "params": params, "columns": columns, "later": 1 });
    lock(&host.statements).insert(sql.to_owned(), prepared.to_string());
}

fn batch(rows: &[&[Option<&[u8]>]]) -> Result<abi::Bytes, abi::Error> {
    let mut out = Vec::new();
    for row in rows {
        values::push_row(&mut out, u16::try_from(row.len()).unwrap());
        assert!(row.iter().all(|value| values::push(&mut out, *value)));
    }
    Ok(out.into())
}

const NUMBERS: &str = "SELECT n FROM numbers";

fn numbers(host: &FakeHost, batches: &[&[i32]]) {
    statement(host, NUMBERS, vec![], vec![("n", simple(&Type::INT4))]);
    let rows = batches.iter().map(|numbers| {
        let values: Vec<_> = numbers.iter().map(|n| n.to_be_bytes()).collect();
        let rows: Vec<[Option<&[u8]>; 1]> = values.iter().map(|value| [Some(&value[..])]).collect();
        batch(&rows.iter().map(|row| &row[..]).collect::<Vec<_>>())
    });
    *lock(&host.rows) = rows.collect();
}

fn values_of(rows: &[Row]) -> Vec<i32> {
    rows.iter().map(|row| row.get("n")).collect()
}

#[test]
fn parameters_go_and_values_come_in_the_types_of_postgresql() {
    let plugin = Instance::new();
    let mood = json!({ "oid": 70001, "name": "mood", "schema": "s", "kind": "enum", "variants": ["sad", "ok"] });
    let moods = json!({ "oid": 70002, "name": "_mood", "schema": "s", "kind": { "array": mood } });
    let types = [Type::TEXT, Type::INT8, Type::UUID, Type::JSONB, Type::TIMESTAMPTZ, Type::TEXT_ARRAY, Type::BOOL];
    let params = types.iter().map(simple).collect();
    let sql = "SELECT 1";
    statement(&plugin.host, sql, params, vec![("id", simple(&Type::UUID)), ("Moods", moods), ("none", mood)]);
    let id = Uuid::from_u128(7);
    let mut array = Vec::new();
    for word in [1u32, 0, 70001, 1, 1, 2] {
        array.extend_from_slice(&word.to_be_bytes()); // dimensions, nulls, element type, length, lower bound, size
    }
    array.extend_from_slice(b"ok");
    *lock(&plugin.host.rows) = vec![batch(&[&[Some(id.as_bytes()), Some(&array), None]])];

    let conn = plugin.connection();
    let at = OffsetDateTime::from_unix_timestamp(946_684_801).unwrap(); // one second into 2000
    let tags = vec!["a".to_owned()];
    let row = block_on(conn.query_one(sql, &[&"x", &2i64, &id, &Json(json!(1)), &at, &tags, &None::<bool>])).unwrap();

    assert_eq!(row.get::<_, Uuid>(0), id);
    assert_eq!(row.columns()[1].type_().name(), "_mood");
    assert!(row.try_get::<_, i32>(0).unwrap_err().message().contains("`id` of type uuid"));
    assert!(row.try_get::<_, Uuid>(9).is_err() && row.try_get::<_, Uuid>("nil").is_err());
    let mut expected = Vec::new();
    let second = 1_000_000i64.to_be_bytes();
    let text_array = [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 25, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1][..], b"a"].concat();
    for value in [Some(&b"x"[..]), Some(&2i64.to_be_bytes()), Some(id.as_bytes()), Some(b"\x011"), Some(&second)] {
        values::push(&mut expected, value);
    }
    for value in [Some(&text_array[..]), None] {
        values::push(&mut expected, value);
    }
    assert!(plugin.host.journal().contains(&format!("query 11 {expected:?}")), "{:?}", plugin.host.journal());
}

#[test]
fn an_enum_and_null_are_read_into_the_authors_types() {
    #[derive(Debug, PartialEq)]
    struct Mood(String);
    impl<'a> cardinal_plugin::postgres::FromSql<'a> for Mood {
        fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
            Ok(Self(String::from_utf8(raw.to_vec())?))
        }
        fn accepts(of: &Type) -> bool {
            of.name() == "mood"
        }
    }
    let plugin = Instance::new();
    let mood = json!({ "oid": 70001, "name": "mood", "schema": "s", "kind": "enum", "variants": ["sad", "ok"] });
    statement(&plugin.host, "SELECT mood", vec![], vec![("mood", mood.clone()), ("none", mood)]);
    *lock(&plugin.host.rows) = vec![batch(&[&[Some(b"ok"), None]])];
    let row = block_on(plugin.connection().query_one("SELECT mood", &[])).unwrap();
    assert_eq!(row.get::<_, Mood>("MOOD"), Mood("ok".to_owned()), "names match in any case when none is exact");
    assert_eq!(row.get::<_, Option<Mood>>("none"), None);
    assert!(row.try_get::<_, Mood>("none").is_err(), "NULL is not a value");
}

#[test]
fn a_parameter_that_does_not_fit_never_reaches_the_host() {
    let plugin = Instance::new();
    statement(&plugin.host, "SELECT $1", vec![simple(&Type::INT4)], vec![]);
    let conn = plugin.connection();
    let wrong = block_on(conn.execute("SELECT $1", &[&"text"])).unwrap_err();
    assert!(wrong.message().contains("parameter $1 of type int4"), "{wrong}");
    let few = block_on(conn.query("SELECT $1", &[])).unwrap_err();
    assert!(few.message().contains("takes 1 parameters, 0 were given"), "{few}");
    assert_eq!(plugin.host.journal(), ["connect", "prepare SELECT $1 on 7"]);
    assert_eq!(block_on(conn.execute("SELECT $1", &[&1i32])).unwrap(), 2);
}

#[test]
fn rows_of_several_batches_are_one_stream() {
    let plugin = Instance::new();
    numbers(&plugin.host, &[&[1, 2], &[], &[3]]);
    let conn = plugin.connection();
    assert_eq!(values_of(&block_on(conn.query(NUMBERS, &[])).unwrap()), [1, 2, 3]);
    numbers(&plugin.host, &[&[4]]);
    assert_eq!(block_on(conn.query_opt(NUMBERS, &[])).unwrap().unwrap().get::<_, i32>(0), 4);
    assert!(block_on(conn.query_opt(NUMBERS, &[])).unwrap().is_none());
    assert!(block_on(conn.query_one(NUMBERS, &[])).is_err(), "none is not one");
    numbers(&plugin.host, &[&[5, 6]]);
    assert!(block_on(conn.query_one(NUMBERS, &[])).is_err(), "two are not one");
    let prepared = plugin.host.journal().iter().filter(|line| line.starts_with("prepare")).count();
    assert_eq!(prepared, 1, "a statement is prepared once on a connection");
}

#[test]
fn a_stream_of_rows_that_is_dropped_cancels_the_statement() {
    let plugin = Instance::new();
    numbers(&plugin.host, &[&[1], &[2]]);
    let conn = plugin.connection();
    let mut rows = block_on(conn.query_stream(NUMBERS, &[])).unwrap();
    assert_eq!(rows.columns()[0].name(), "n");
    assert_eq!(block_on(rows.next()).unwrap().unwrap().get::<_, i32>(0), 1);
    drop(rows);
    assert_eq!(plugin.host.journal().last().unwrap(), "rows dropped");
}

#[test]
fn an_error_among_the_rows_and_rows_that_make_no_sense_end_the_stream() {
    let plugin = Instance::new();
    let conn = plugin.connection();
    numbers(&plugin.host, &[&[1]]);
    let mut failure = abi::Error::new(codes::DATABASE, "division by zero");
    failure.details = String::from("{\"sqlstate\": \"22012\"}").into();
    lock(&plugin.host.rows).push(Err(failure));
    let error = block_on(conn.query(NUMBERS, &[])).unwrap_err();
    assert_eq!((error.sqlstate(), error.status()), (Some("22012"), None));

    for nonsense in [vec![0, 2, 0, 0, 0, 0], vec![0, 1, 0, 0, 0, 9, 1], vec![0]] {
        *lock(&plugin.host.rows) = vec![Ok(nonsense.into()), batch(&[&[Some(&[0; 4])]])];
        let mut rows = block_on(conn.query_stream(NUMBERS, &[])).unwrap();
        assert!(block_on(rows.next()).unwrap().unwrap_err().message().contains("malformed"));
        assert!(block_on(rows.next()).is_none());
    }
    lock(&plugin.host.statements).insert("SELECT broken".to_owned(), "{".to_owned());
    assert!(block_on(conn.prepare("SELECT broken")).is_err());
}

#[test]
fn a_dropped_query_is_cancelled_and_a_dropped_connection_is_given_back() {
    let plugin = Instance::new();
    plugin.host.hold("execute");
    let conn = plugin.connection();
    let mut running = Box::pin(conn.execute("UPDATE x", &[]));
    assert!(poll(&mut running).is_pending());
    drop(running);
    drop(conn);
    let tail = ["execute 1 []", "cancelled execute", "release 7"];
    assert_eq!(plugin.host.journal()[2..], tail);
}

#[test]
fn a_connection_that_nobody_waits_for_any_more_is_not_taken() {
    let plugin = Instance::new();
    plugin.host.hold("connect");
    let mut connecting = plugin.context().get_plugin_conn();
    assert!(poll(&mut std::pin::pin!(&mut connecting)).is_pending());
    drop(connecting);
    assert_eq!(plugin.host.journal(), ["connect", "cancelled connect"]);
}

#[test]
fn a_transaction_lasts_when_it_is_committed() {
    let plugin = Instance::new();
    let mut conn = plugin.connection();
    block_on(async {
        let tx = conn.transaction().await?;
        tx.execute("INSERT", &[]).await?;
        tx.commit().await
    })
    .unwrap();
    drop(conn);
    let expected = ["connect", "BEGIN", "prepare INSERT on 7", "execute 1 []", "COMMIT", "release 7"];
    assert_eq!(plugin.host.journal(), expected);
}

#[test]
fn a_transaction_that_is_dropped_is_rolled_back_at_once_and_before_the_next_statement() {
    let plugin = Instance::new();
    plugin.host.hold("ROLLBACK");
    let mut conn = plugin.connection();
    drop(block_on(conn.transaction()).unwrap());
    assert_eq!(plugin.host.journal(), ["connect", "BEGIN", "ROLLBACK"], "not when it is next used: now");
    let mut next = Box::pin(conn.batch_execute("SELECT 1"));
    assert!(poll(&mut next).is_pending());
    drop(next); // whoever gives up waiting does not cancel the rollback
    assert_eq!(plugin.host.journal().len(), 3);
    plugin.host.finish("ROLLBACK");
    block_on(conn.batch_execute("SELECT 2")).unwrap();
    assert_eq!(plugin.host.journal()[3..], ["SELECT 2"]);
}

#[test]
fn a_connection_is_given_back_when_its_rollback_is_through() {
    let plugin = Instance::new();
    plugin.host.hold("ROLLBACK");
    let mut conn = plugin.connection();
    drop(block_on(conn.transaction()).unwrap());
    drop(conn);
    plugin.host.until_asked("ROLLBACK");
    assert_eq!(plugin.host.journal().last().unwrap(), "ROLLBACK");
    plugin.host.finish("ROLLBACK");
    plugin.host.until_journal("release 7");
    assert!(!plugin.host.journal().contains(&"cancelled ROLLBACK".to_owned()));
}

#[test]
fn a_plugin_that_is_stopped_meanwhile_gives_its_connections_back() {
    let plugin = Instance::new();
    plugin.host.hold("ROLLBACK");
    let mut conn = plugin.connection();
    drop(block_on(conn.transaction()).unwrap());
    drop(conn);
    plugin.host.until_asked("ROLLBACK");
    plugin.shut_down();
    assert_eq!(plugin.host.journal()[3..], ["cancelled ROLLBACK", "release 7"]);
    let mut late = plugin.connection();
    drop(block_on(late.transaction()).unwrap());
    drop(late);
    assert_eq!(plugin.host.journal().last().unwrap(), "release 7");
}

#[test]
fn a_commit_that_fails_and_a_begin_that_is_given_up_are_rolled_back() {
    let plugin = Instance::new();
    let failure = abi::Error::new(codes::DATABASE, "a deferred constraint");
    lock(&plugin.host.failing).insert("COMMIT".to_owned(), failure);
    let mut conn = plugin.connection();
    let tx = block_on(conn.transaction()).unwrap();
    assert!(block_on(tx.commit()).is_err());
    assert_eq!(plugin.host.journal().last().unwrap(), "ROLLBACK");

    plugin.host.hold("BEGIN");
    let mut beginning = Box::pin(conn.transaction());
    assert!(poll(&mut beginning).is_pending());
    drop(beginning);
    let journal = plugin.host.journal();
    assert_eq!(journal[journal.len() - 2..], ["cancelled BEGIN", "ROLLBACK"]);
}

#[test]
fn a_savepoint_is_undone_before_the_next_statement_or_with_the_whole() {
    let plugin = Instance::new();
    let mut conn = plugin.connection();
    block_on(async {
        let mut tx = conn.transaction().await?;
        let mut inner = tx.transaction().await?;
        drop(inner.transaction().await?); // goes with the one around it
        drop(inner);
        tx.batch_execute("SELECT 1").await?;
        let again = tx.transaction().await?;
        again.commit().await?;
        let last = tx.transaction().await?;
        last.rollback().await?;
        drop(tx.transaction().await?);
        Ok::<_, Error>(())
    })
    .unwrap();
    let expected = [
        "BEGIN",
        "SAVEPOINT cardinal_1",
        "SAVEPOINT cardinal_2",
        "ROLLBACK TO SAVEPOINT cardinal_1; RELEASE SAVEPOINT cardinal_1",
        "SELECT 1",
        "SAVEPOINT cardinal_1",
        "RELEASE SAVEPOINT cardinal_1",
        "SAVEPOINT cardinal_1",
        "ROLLBACK TO SAVEPOINT cardinal_1; RELEASE SAVEPOINT cardinal_1",
        "SAVEPOINT cardinal_1",
        "ROLLBACK", // the transaction, dropped with its last savepoint
    ];
    assert_eq!(plugin.host.journal()[1..], expected);
}

#[test]
fn a_statement_belongs_to_its_connection() {
    let plugin = Instance::new();
    let conn = plugin.connection();
    let statement = block_on(conn.prepare("SELECT 1")).unwrap();
    assert_eq!(block_on(conn.execute(&statement, &[])).unwrap(), 2);
    let other: Connection = Instance::new().connection();
    assert_eq!(format!("{conn:?} {other:?}"), "Connection(7) Connection(7)");
    assert!(statement.params().is_empty() && statement.columns().is_empty());
}

#[test]
fn a_statement_that_the_server_no_longer_takes_is_prepared_anew() {
    let plugin = Instance::new();
    let conn = plugin.connection();
    for (sqlstate, prepared) in [("23505", 1), ("0A000", 1), ("26000", 2), ("23505", 3)] {
        let mut failure = abi::Error::new(codes::DATABASE, "no");
        failure.details = json!({ "sqlstate": sqlstate }).to_string().into();
        lock(&plugin.host.failing).insert("execute".to_owned(), failure);
        assert_eq!(block_on(conn.execute("INSERT", &[])).unwrap_err().sqlstate(), Some(sqlstate));
        let times = plugin.host.journal().iter().filter(|line| line.starts_with("prepare")).count();
        assert_eq!(times, prepared, "after {sqlstate}");
    }
}

#[test]
fn copy_streams_in_and_out() {
    let plugin = Instance::new();
    let conn = plugin.connection();
    let pieces = stream::iter([Ok(Bytes::from_static(b"a\n")), Ok(Bytes::from_static(b"b\n"))]);
    assert_eq!(block_on(conn.copy_in("COPY t FROM STDIN", pieces)).unwrap(), 4);
    assert_eq!(plugin.host.journal()[1], "COPY t FROM STDIN: a\nb\n");
    let broken = stream::iter([Err(Error::internal("torn"))]);
    assert!(block_on(conn.copy_in("COPY t FROM STDIN", broken)).unwrap_err().message().contains("torn"));
    let out = block_on(conn.copy_out("COPY t TO STDOUT")).unwrap();
    let pieces: Vec<_> = block_on(out.collect());
    assert_eq!(pieces.into_iter().map(Result::unwrap).collect::<Vec<_>>().concat(), b"a\nb\n");
    drop(block_on(conn.copy_out("COPY t TO STDOUT")).unwrap());
    assert_eq!(plugin.host.journal().last().unwrap(), "rows dropped");
}

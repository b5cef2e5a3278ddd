//! Two changes of one key at once. A lock that the test holds makes them wait in an order of its choice.

use super::*;

/// Writers of a key that wait for the account's row.
async fn waiting(database: &tokio_postgres::Client) -> i64 {
    let asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%admin_users%'";
    database.query_one(asked, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_key_that_is_narrowed_does_not_widen_itself_meanwhile() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let (holder, observer) = (host.database().await, host.database().await);
    let wide = json!({"scopes": ["keys:write", "cards:read"]});
    let narrow = json!({"scopes": ["cards:read"]});
    for narrowing_first in [true, false] {
        for narrows_parent in [true, false] {
            let root = Key::made_by(owner, json!({})).await;
            let key = Key::made_by(&root.client, json!({})).await;
            let narrowed = if narrows_parent { root.path() } else { key.path() };
            let by: &Client = if narrows_parent { owner } else { &root.client };
            holder.batch_execute("BEGIN; SELECT FROM public.admin_users FOR UPDATE").await.unwrap();
            let narrowing = by.patch(&narrowed, &narrow);
            let path = key.path();
            let widening = key.client.patch(&path, &wide);
            let until = async |count: i64| {
                eventually("they wait", async || (waiting(&observer).await == count).then_some(())).await;
            };
            let first = async |is_first: bool| {
                if !is_first {
                    until(1).await
                }
            };
            let (narrowing, widening, ()) = tokio::join!(
                async {
                    first(narrowing_first).await;
                    narrowing.await
                },
                async {
                    first(!narrowing_first).await;
                    widening.await
                },
                async {
                    until(2).await;
                    holder.batch_execute("COMMIT").await.unwrap();
                }
            );
            narrowing.expect(200);
            // It was judged as a key with all its scopes; under the lock it has lost one.
            let expected = if narrowing_first { 401 } else { 200 };
            assert_eq!(widening.status, expected, "{widening}");
            let item = key.seen_by(owner).await;
            assert_eq!(item["scopes"], narrow["scopes"], "{item}");
            key.client.patch(&path, &wide).await.refused(403, "insufficient-scope");
        }
    }
}

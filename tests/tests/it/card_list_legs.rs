//! Contract 4: searches for words that do not lie evenly in the list. Every page, forwards and back, is what plain SQL
//! says: where a walk along the list falls short and goes on from there, and where what has the words is gathered.

use tokio_postgres::Client;

use super::{
    card_list_many::{ANALYZE, changed, has, seeded},
    card_list_words::every_page_fits,
};
use cardinal_tests::User;

/// `needle` gets rarer from the beginning of titles, SKUs and ages on, `thimble` from their end; `bobbin` lies in the
/// middle, by a hash: what ANALYZE keeps of titles are each three-hundredth. The last tenth is of groups that no other
/// cards are of.
const SEWN: &str = "
UPDATE public.master_cards c
   SET title = left(c.sku, 8)
         || CASE WHEN n <= 3900 AND n % 41 = 0 OR n > 8000 AND n % 11 = 0 THEN ' needle' ELSE '' END
         || CASE WHEN n > 26100 AND n % 41 = 0 OR n <= 22000 AND n % 11 = 0 THEN ' thimble' ELSE '' END
         || CASE WHEN n BETWEEN 14000 AND 17999 AND hashint4(n) % 3 <> 0 THEN ' bobbin' ELSE '' END
  FROM (SELECT id, substr(sku, 3, 6)::int AS n FROM public.master_cards) m
 WHERE m.id = c.id";

/// Lists of what has the word, in all orders.
async fn every_order_fits(owner: &User, database: &Client, word: &str, (filter, condition): (&str, &str)) {
    for (sort, order) in [("title", "title"), ("sku", "sku"), ("created_at", "id"), ("updated_at", "updated_at, id")] {
        for (minus, direction) in [("", ""), ("-", " DESC")] {
            let order = order.replace(", ", &format!("{direction}, "));
            let sql = format!(
                "SELECT id::text FROM public.master_cards c WHERE deleted_at IS NULL AND {condition} \
                   AND strpos(title, '{word}') > 0 ORDER BY {order}{direction}"
            );
            every_page_fits(owner, database, &format!("&q={word}{filter}&sort={minus}{sort}"), &sql).await;
        }
    }
}

#[tokio::test]
async fn a_walk_that_falls_short_goes_on_and_misses_and_repeats_nothing() {
    let (host, database) = seeded().await;
    for sql in [SEWN, ANALYZE] {
        database.batch_execute(sql).await.unwrap();
    }
    let filters = [
        ("", "true".to_owned()),
        ("&status=active", "status = 'active'".to_owned()),
        ("&kind=most", has("most")),
        ("&missing_kind=late", format!("NOT {}", has("late"))),
    ];
    for (filter, condition) in &filters {
        for word in ["needle", "thimble"] {
            every_order_fits(host.owner().await, &database, word, (filter, condition)).await;
        }
    }
}

#[tokio::test]
async fn of_words_in_the_middle_of_a_list_those_are_found_that_have_changed() {
    let (host, database) = seeded().await;
    for sql in [SEWN, ANALYZE] {
        database.batch_execute(sql).await.unwrap();
    }
    // Most cards, and few.
    for minutes in [25_000, 300] {
        let since = changed(minutes);
        let (filter, condition) = (format!("&updated_since={since}"), format!("updated_at >= '{since}'"));
        let active = (format!("{filter}&status=active"), format!("{condition} AND status = 'active'"));
        let few = (format!("{filter}&kind=few"), format!("{condition} AND {}", has("few")));
        for (filter, condition) in [(filter, condition), active, few] {
            every_order_fits(host.owner().await, &database, "bobbin", (&filter, &condition)).await;
        }
    }
}

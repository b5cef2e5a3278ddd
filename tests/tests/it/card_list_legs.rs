//! Contract 4: searches for words that get rarer along the list and then more frequent again. A walk along it falls short
//! and goes on where it has ended; every page, forwards and back, is what plain SQL says.

use super::{
    card_list_many::{ANALYZE, has, seeded},
    card_list_words::every_page_fits,
};

/// `needle` gets rarer from the beginning of titles, SKUs and ages on, `thimble` from their end; the last tenth is of
/// groups that no other cards are of.
const SEWN: &str = "
UPDATE public.master_cards c
   SET title = left(c.sku, 8)
         || CASE WHEN n <= 3900 AND n % 41 = 0 OR n > 8000 AND n % 11 = 0 THEN ' needle' ELSE '' END
         || CASE WHEN n > 26100 AND n % 41 = 0 OR n <= 22000 AND n % 11 = 0 THEN ' thimble' ELSE '' END
  FROM (SELECT id, substr(sku, 3, 6)::int AS n FROM public.master_cards) m
 WHERE m.id = c.id";

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
    let orders = [("title", "title"), ("sku", "sku"), ("created_at", "id"), ("updated_at", "updated_at, id")];
    for (filter, condition) in &filters {
        for word in ["needle", "thimble"] {
            for (sort, order) in orders {
                for (minus, direction) in [("", ""), ("-", " DESC")] {
                    let order = order.replace(", ", &format!("{direction}, "));
                    let sql = format!(
                        "SELECT id::text FROM public.master_cards c WHERE deleted_at IS NULL AND {condition} \
                           AND strpos(title, '{word}') > 0 ORDER BY {order}{direction}"
                    );
                    let asked = format!("&q={word}{filter}&sort={minus}{sort}");
                    every_page_fits(host.owner().await, &database, &asked, &sql).await;
                }
            }
        }
    }
}

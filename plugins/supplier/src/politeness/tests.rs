//! With tokio's clock paused: time passes only when everybody waits, so every figure here is exact.
#![allow(clippy::unwrap_used)]

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::sleep;

use super::*;

const DELAY: Duration = Duration::from_millis(500);

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn shop() -> Url {
    url("https://shop.example/a")
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time_in_the_order_of_arrival_with_a_pause_between() {
    let sites = Sites::default();
    let begun = Instant::now();
    let visits = Mutex::new(Vec::new());
    let visit = async |number: u64| {
        let turn = sites.turn(&shop(), DELAY).await.unwrap();
        visits.lock().unwrap().push((number, begun.elapsed().as_millis()));
        sleep(Duration::from_millis(100)).await;
        drop(turn);
    };
    join_all((0..20).map(visit)).await;
    let expected: Vec<_> = (0..20).map(|number| (number, u128::from(number) * 600)).collect();
    assert_eq!(*visits.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn other_sites_do_not_wait() {
    let sites = Sites::default();
    let _shop = sites.turn(&shop(), DELAY).await.unwrap();
    let begun = Instant::now();
    for other in ["https://www.shop.example/", "https://shop.example:8443/", "http://other.example/"] {
        sites.turn(&url(other), DELAY).await.unwrap();
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn both_schemes_of_a_host_are_one_site() {
    let sites = Sites::default();
    let turn = sites.turn(&shop(), DELAY).await.unwrap();
    assert!(turn.covers(&url("http://shop.example/b")) && !turn.covers(&url("https://shop.example:8443/")));
    drop(turn);
    let begun = Instant::now();
    sites.turn(&url("http://shop.example/"), DELAY).await.unwrap();
    assert_eq!(begun.elapsed(), DELAY);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_says_when_to_come_back() {
    let sites = Sites::default();
    let turn = sites.turn(&shop(), DELAY).await.unwrap();
    let shop = shop();
    let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(sites.turn(&shop, DELAY))).collect();
    for one in &mut waiting {
        assert!(one.as_mut().now_or_never().is_none());
    }
    let refused = sites.turn(&shop, DELAY).await.unwrap_err();
    assert_eq!(refused.retry_after, DELAY * MAX_WAITING as u32);
    // Somebody hangs up: the place is free at once, and the others move up.
    drop(waiting.remove(0));
    let mut late = Box::pin(sites.turn(&shop, DELAY));
    assert!(late.as_mut().now_or_never().is_none());
    drop(turn);
    drop(waiting.remove(0).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_leaves_during_the_pause_does_not_lengthen_it() {
    let sites = Sites::default();
    drop(sites.turn(&shop(), DELAY).await.unwrap());
    let begun = Instant::now();
    let gone = tokio::time::timeout(DELAY / 2, sites.turn(&shop(), DELAY)).await;
    assert!(gone.is_err());
    sites.turn(&shop(), DELAY).await.unwrap();
    assert_eq!(begun.elapsed(), DELAY);
}

#[tokio::test(start_paused = true)]
async fn who_would_wait_too_long_is_told_at_once() {
    let sites = Sites::default();
    let slow = MAX_WAIT / 2;
    let shop = shop();
    let _turn = sites.turn(&shop, slow).await.unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(sites.turn(&shop, slow))).collect();
    for one in &mut waiting {
        assert!(one.as_mut().now_or_never().is_none());
    }
    let begun = Instant::now();
    assert_eq!(sites.turn(&shop, slow).await.unwrap_err().retry_after, MAX_WAIT);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // Those that do wait have an end too.
    assert_eq!(waiting.remove(0).await.unwrap_err().retry_after, MAX_WAIT);
    assert_eq!(begun.elapsed(), MAX_WAIT);
}

#[tokio::test(start_paused = true)]
async fn a_site_can_ask_for_longer_pauses_within_limits() {
    let sites = Sites::default();
    let crawl_delay = async |asked: u64| {
        let shop = url(&format!("https://{asked}.example/"));
        let mut turn = sites.turn(&shop, DELAY).await.unwrap();
        let robots = Robots::parse(&format!("user-agent: *\ncrawl-delay: {asked}\n"), "us");
        turn.remember(&shop, RobotsPolicy::Rules(Arc::new(robots)));
        drop(turn);
        let begun = Instant::now();
        sites.turn(&shop, DELAY).await.unwrap();
        begun.elapsed()
    };
    assert_eq!(crawl_delay(2).await, Duration::from_secs(2));
    assert_eq!(crawl_delay(86_400).await, MAX_CRAWL_DELAY);
    assert_eq!(crawl_delay(0).await, DELAY);

    sites.turn(&shop(), DELAY).await.unwrap().rest(Duration::from_secs(40));
    let refused = sites.turn(&shop(), DELAY).await.unwrap_err();
    assert_eq!(refused.retry_after, Duration::from_secs(40));
    tokio::time::advance(Duration::from_secs(20)).await;
    sites.turn(&shop(), DELAY).await.unwrap().rest(Duration::from_secs(86_400));
    assert_eq!(sites.turn(&shop(), DELAY).await.unwrap_err().retry_after, MAX_REST);
}

#[tokio::test(start_paused = true)]
async fn what_a_site_said_about_robots_is_asked_again_in_time() {
    let sites = Sites::default();
    let mut turn = sites.turn(&shop(), DELAY).await.unwrap();
    assert!(turn.verdict(&shop()).is_none());
    turn.remember(&shop(), RobotsPolicy::Rules(Arc::new(Robots::default())));
    turn.remember(&url("http://shop.example/"), RobotsPolicy::Failed(503));
    drop(turn);
    let turn = sites.turn(&shop(), DELAY).await.unwrap();
    assert!(matches!(turn.verdict(&shop()), Some(RobotsPolicy::Rules(_))));
    assert!(matches!(turn.verdict(&url("http://shop.example/")), Some(RobotsPolicy::Failed(503))));
    tokio::time::advance(ROBOTS_FAILURE_KEPT).await;
    assert!(turn.verdict(&url("http://shop.example/")).is_none() && turn.verdict(&shop()).is_some());
    tokio::time::advance(ROBOTS_KEPT).await;
    assert!(turn.verdict(&shop()).is_none());
}

#[tokio::test(start_paused = true)]
async fn only_so_many_sites_are_remembered() {
    let sites = Sites::default();
    let busy = sites.turn(&shop(), DELAY).await.unwrap();
    for number in 0..MAX_SITES * 2 {
        sites.turn(&url(&format!("http://{number}.example/")), Duration::ZERO).await.unwrap();
    }
    let known = sites.known.lock().unwrap();
    assert_eq!(known.len(), MAX_SITES);
    assert!(known.contains_key("shop.example"), "a site with a visitor is not forgotten");
    drop(busy);
}

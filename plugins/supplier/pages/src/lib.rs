//! What a supplier's files say, without asking anybody: the product of a page, the products of a feed, the pages of a
//! sitemap, and what a robots.txt permits. The plugin fetches them.

pub mod product;
pub mod robots;

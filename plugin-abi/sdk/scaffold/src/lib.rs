// `println!` and `eprintln!` write to the plugin's log.
#[allow(unused_imports)]
#[macro_use(println, eprintln)]
extern crate cardinal_plugin;

mod routes;
mod service;
{{#settings}}
mod settings;
{{/settings}}

cardinal_plugin::plugin!(routes::routes);

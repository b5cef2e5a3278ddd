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

// `cargo test` runs the plugin in a host, too, if it finds the program `cardinal`.
#[cfg(test)]
cardinal_plugin::host_tests!();

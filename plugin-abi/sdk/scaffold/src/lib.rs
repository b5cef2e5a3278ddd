mod routes;
mod service;
{{#settings}}
mod settings;
{{/settings}}

cardinal_plugin::plugin!(routes::routes);

mod routes;
mod service;

cardinal_plugin::plugin!(routes::routes);

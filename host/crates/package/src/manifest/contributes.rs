//! What a plugin adds to the Admin UI: tabs of cards, pages of its own, columns of the card list and actions on cards.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    ACTIONS_LIMIT, Backend, COLUMNS_LIMIT, DeclaredRoute, NAME_LIMIT, PAGES_LIMIT, TABS_LIMIT, check_template,
    field::{Field, LINE_LIMIT, Object, line},
    is_kebab,
};
use crate::refusal::Code;

const TAB_ID_LIMIT: usize = 64;
const POINTER_LIMIT: usize = 200;
const METHODS: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contributes {
    pub card_tabs: Vec<CardTab>,
    pub pages: Vec<PluginPage>,
    pub list_columns: Vec<ListColumn>,
    pub card_actions: Vec<CardAction>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CardTab {
    pub id: String,
    pub label: String,
    pub icon: Option<String>,
    /// Drawn in a sandboxed frame of its own, apart from the page.
    pub frame: bool,
}

/// A page in the navigation, drawn by the plugin's frontend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PluginPage {
    pub id: String,
    pub label: String,
    pub icon: Option<String>,
}

/// A column of the card list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListColumn {
    pub id: String,
    pub label: String,
    #[serde(flatten)]
    pub values: ColumnValues,
    pub format: ColumnFormat,
}

/// Where the values of a column come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ColumnValues {
    /// The plugin's sources in the cards: no code of the plugin runs.
    Sources {
        /// One of the plugin's own; of several sources of it, the one written last counts.
        kind: String,
        /// A JSON pointer into the source's data.
        value: String,
    },
    /// A GET route of the plugin, asked for all cards in sight at once.
    Route {
        /// Below the plugin's prefix.
        route: String,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColumnFormat {
    #[default]
    Text,
    Number,
    /// A number from 0 to 100.
    Percent,
    Date,
}

/// A button on a card's page, for the cards that are selected in the list, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CardAction {
    pub id: String,
    pub label: String,
    pub icon: Option<String>,
    pub on: Vec<ActionPlace>,
    /// What the Admin UI sends; without it the plugin's frontend draws a dialog.
    pub route: Option<ActionRoute>,
    /// What the user is asked before the route is called.
    pub confirm: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionPlace {
    Card,
    Selection,
}

/// Below the plugin's prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActionRoute {
    pub method: String,
    pub path: String,
}

impl Contributes {
    /// Whether some of it is drawn by the plugin's frontend.
    pub(crate) fn needs_frontend(&self) -> bool {
        !self.card_tabs.is_empty()
            || !self.pages.is_empty()
            || self.card_actions.iter().any(|action| action.route.is_none())
    }

    /// What all plugins share one space of names for, and each name in it.
    pub fn ids(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let pages = self.pages.iter().map(|page| ("page", page.id.as_str()));
        let columns = self.list_columns.iter().map(|column| ("list column", column.id.as_str()));
        let actions = self.card_actions.iter().map(|action| ("card action", action.id.as_str()));
        pages.chain(columns).chain(actions)
    }
}

/// What contributions refer to.
pub(super) struct ContributionContext<'a> {
    pub kinds: &'a [String],
    pub backend: Option<&'a Backend>,
}

impl ContributionContext<'_> {
    fn has_route(&self, action_route: &ActionRoute) -> bool {
        let Some(backend) = self.backend else { return false };
        let same =
            |route: &DeclaredRoute| route.method.as_str() == action_route.method && route.path == action_route.path;
        backend.routes.as_ref().is_none_or(|routes| routes.iter().any(same))
    }
}

pub(super) fn read(manifest: &Object, around: &ContributionContext) -> Contributes {
    let Some(object) = manifest.optional("contributes").and_then(|field| field.object()) else {
        return Contributes::default();
    };
    object.done(&["cardTabs", "pages", "listColumns", "cardActions"]);
    let other = Code::DuplicateContribution;
    Contributes {
        card_tabs: each(&object, "cardTabs", TABS_LIMIT, Code::DuplicateTab, card_tab, |tab| &tab.id),
        pages: each(&object, "pages", PAGES_LIMIT, other, page, |page| &page.id),
        list_columns: each(
            &object,
            "listColumns",
            COLUMNS_LIMIT,
            other,
            |field| list_column(field, around),
            |column| &column.id,
        ),
        card_actions: each(
            &object,
            "cardActions",
            ACTIONS_LIMIT,
            other,
            |field| card_action(field, around),
            |action| &action.id,
        ),
    }
}

/// The items of a list, each id once.
fn each<T>(
    contributes: &Object,
    name: &str,
    limit: usize,
    duplicate: Code,
    read: impl Fn(&Field) -> Option<T>,
    id: fn(&T) -> &str,
) -> Vec<T> {
    let fields = contributes.optional(name).and_then(|field| field.bounded_array(limit)).unwrap_or_default();
    let mut seen = HashSet::new();
    let mut items = Vec::new();
    for field in fields {
        let Some(item) = read(&field) else { continue };
        if !seen.insert(id(&item).to_owned()) {
            field.wrong(duplicate, format!("an id other than {:?}, which is there already", id(&item)));
        }
        items.push(item);
    }
    items
}

fn card_tab(field: &Field) -> Option<CardTab> {
    let object = field.object()?;
    object.done(&["id", "label", "icon", "frame"]);
    let id = object.required("id", "the id of the tab").and_then(|field| {
        let id = field.line(TAB_ID_LIMIT)?;
        let plain = !id.chars().any(char::is_whitespace);
        if !plain {
            field.wrong(Code::BadManifest, "an id without spaces");
        }
        plain.then_some(id)
    });
    let label = label(&object);
    let icon = line(&object, "icon");
    let frame = object.optional("frame").map_or(Some(false), |field| field.boolean());
    Some(CardTab { id: id?.to_owned(), label: label?, icon, frame: frame? })
}

fn page(field: &Field) -> Option<PluginPage> {
    let object = field.object()?;
    object.done(&["id", "label", "icon"]);
    let (id, label, icon) = (kebab_id(&object), label(&object), line(&object, "icon"));
    Some(PluginPage { id: id?, label: label?, icon })
}

fn list_column(field: &Field, around: &ContributionContext) -> Option<ListColumn> {
    let object = field.object()?;
    object.done(&["id", "label", "kind", "value", "route", "format"]);
    let (id, label) = (kebab_id(&object), label(&object));
    let values = match object.optional("route") {
        Some(route) => column_route(&object, &route, around),
        None => column_source(&object, around),
    };
    let format = match object.optional("format") {
        Some(field) => format(&field),
        None => Some(ColumnFormat::default()),
    };
    Some(ListColumn { id: id?, label: label?, values: values?, format: format? })
}

fn column_route(column: &Object, field: &Field, around: &ContributionContext) -> Option<ColumnValues> {
    for name in ["kind", "value"] {
        if column.optional(name).is_some() {
            column.wrong(name, Code::BadManifest, "nothing: the column has a route");
            return None;
        }
    }
    let path = plain_path(field)?;
    let route = ActionRoute { method: "GET".to_owned(), path: path.to_owned() };
    if !around.has_route(&route) {
        field.wrong(Code::BadManifest, "the path of a GET route of the plugin's backend");
        return None;
    }
    Some(ColumnValues::Route { route: route.path })
}

fn column_source(object: &Object, around: &ContributionContext) -> Option<ColumnValues> {
    let kind = object.required("kind", "one of provides_kinds").and_then(|field| {
        let kind = field.line(LINE_LIMIT)?;
        let own = around.kinds.iter().any(|own| own == kind);
        if !own {
            field.wrong(Code::BadManifest, "one of provides_kinds");
        }
        own.then_some(kind)
    });
    let value = object.required("value", "a JSON pointer such as \"/score\"").and_then(|field| pointer(&field));
    Some(ColumnValues::Sources { kind: kind?.to_owned(), value: value? })
}

fn pointer(field: &Field) -> Option<String> {
    let text = field.line(POINTER_LIMIT)?;
    let escaped = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if !text.starts_with('/') || !escaped {
        field.wrong(Code::BadManifest, "a JSON pointer such as \"/score\"");
        return None;
    }
    Some(text.to_owned())
}

fn format(field: &Field) -> Option<ColumnFormat> {
    match field.string()? {
        "text" => Some(ColumnFormat::Text),
        "number" => Some(ColumnFormat::Number),
        "percent" => Some(ColumnFormat::Percent),
        "date" => Some(ColumnFormat::Date),
        _ => {
            field.wrong(Code::BadManifest, "\"text\", \"number\", \"percent\" or \"date\"");
            None
        }
    }
}

fn card_action(field: &Field, around: &ContributionContext) -> Option<CardAction> {
    let object = field.object()?;
    object.done(&["id", "label", "icon", "on", "route", "confirm"]);
    let (id, label) = (kebab_id(&object), label(&object));
    let on = match object.optional("on") {
        Some(field) => places(&field),
        None => Some(vec![ActionPlace::Card, ActionPlace::Selection]),
    };
    let route = match object.optional("route") {
        Some(field) => Some(action_route(&field, around)?),
        None => None,
    };
    let confirm = line(&object, "confirm");
    if confirm.is_some() && route.is_none() {
        object.wrong("confirm", Code::BadManifest, "a route beside it; a dialog of the frontend asks by itself");
    }
    Some(CardAction { id: id?, label: label?, icon: line(&object, "icon"), on: on?, route, confirm })
}

fn places(field: &Field) -> Option<Vec<ActionPlace>> {
    let mut found = Vec::new();
    for item in field.array()? {
        let place = match item.string()? {
            "card" => ActionPlace::Card,
            "selection" => ActionPlace::Selection,
            _ => {
                item.wrong(Code::BadManifest, "\"card\" or \"selection\"");
                return None;
            }
        };
        if !found.contains(&place) {
            found.push(place);
        }
    }
    if found.is_empty() {
        field.wrong(Code::BadManifest, "an array of \"card\", \"selection\" or both");
        return None;
    }
    Some(found)
}

fn action_route(field: &Field, around: &ContributionContext) -> Option<ActionRoute> {
    let object = field.object()?;
    object.done(&["method", "path"]);
    let method = match object.optional("method") {
        None => Some("POST"),
        Some(field) => field.string().filter(|method| {
            let known = METHODS.contains(method);
            if !known {
                field.wrong(Code::BadManifest, METHODS.join(", "));
            }
            known
        }),
    };
    let path = object.required("path", "a path such as \"/items\"").and_then(|field| plain_path(&field));
    let route = ActionRoute { method: method?.to_owned(), path: path?.to_owned() };
    if !around.has_route(&route) {
        field.wrong(Code::BadManifest, "a route of the plugin's backend");
        return None;
    }
    Some(route)
}

fn plain_path<'a>(field: &Field<'a>) -> Option<&'a str> {
    let path = field.string()?;
    if path.contains(['{', '}']) || check_template(path).is_err() {
        field.wrong(Code::BadManifest, "a path without placeholders, such as \"/items\"");
        return None;
    }
    Some(path)
}

fn kebab_id(object: &Object) -> Option<String> {
    let field = object.required("id", "a kebab-case id")?;
    let id = field.string()?;
    if !is_kebab(id) {
        let expected = "kebab-case: a letter, then a-z, 0-9 and single hyphens";
        field.wrong(Code::BadManifest, format!("{expected}, at most {NAME_LIMIT} characters"));
        return None;
    }
    Some(id.to_owned())
}

fn label(object: &Object) -> Option<String> {
    object.required("label", "the label, for people").and_then(|field| field.line(LINE_LIMIT)).map(str::to_owned)
}

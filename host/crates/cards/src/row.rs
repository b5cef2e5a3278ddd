//! A row of an import: what it may hold and what it means. The rules are those of a card that is made by itself.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};
use uuid::Uuid;

use super::{
    card::{Faults, Status},
    error::{CardError, FieldError},
    source::{self, SourceError},
};
use cardinal_base::{
    card_size::CARD_LIMIT,
    codes::Code,
    exact::Object,
    input::{self, InputError},
};

const NOT_JSON: &str = "The line is not valid JSON.";

/// Bytes of a row: twice those of the largest card, since JSON in a cell of CSV has its quotes doubled.
pub(crate) const ROW_LIMIT: usize = 2 * CARD_LIMIT;

/// What an import was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Terms {
    pub mode: Mode,
    pub dry_run: bool,
    pub atomic: bool,
    /// Whether ids and sources count, as an export has them.
    #[serde(rename = "sources", serialize_with = "kept")]
    pub keeps_sources: bool,
}

fn kept<S: serde::Serializer>(kept: &bool, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(if *kept { "keep" } else { "ignore" })
}

/// What a SKU that is there means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A row that can't be written.
    Create,
    /// The card becomes what the row says; what it doesn't say stays.
    Upsert,
}

/// A row, checked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    pub line: i64,
    pub sku: String,
    pub title: Option<String>,
    pub status: Option<Status>,
    /// All attributes but sources.
    pub attributes: Option<Box<RawValue>>,
    /// Single attributes, which leave the others alone.
    pub set: Option<Object>,
    /// For a card that is made, where ids count.
    pub id: Option<Uuid>,
    pub sources: Option<Sources>,
    /// It has sources, which don't count.
    #[serde(skip)]
    pub ignores_sources: bool,
}

/// The sources of a row.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sources {
    /// The object.
    pub text: Box<RawValue>,
    pub listed: Vec<ListedSource>,
}

/// What is kept of a source beside the card.
#[derive(Debug, Serialize, Deserialize)]
pub struct ListedSource {
    pub key: String,
    pub plugin: String,
    pub kind: String,
    pub bytes: i32,
}

/// The fields of a row before they are judged.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    #[serde(default, deserialize_with = "input::maybe::present")]
    pub title: Option<Option<String>>,
    #[serde(default, deserialize_with = "input::maybe::present")]
    pub sku: Option<Option<String>>,
    #[serde(default, deserialize_with = "input::maybe::present")]
    pub status: Option<Option<Status>>,
    #[serde(default, deserialize_with = "raw")]
    pub attributes: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "raw")]
    pub id: Option<Box<RawValue>>,
    // What an export has beside and an import can't bring back.
    #[serde(default, rename = "version")]
    _version: Option<IgnoredAny>,
    #[serde(default, rename = "created_at")]
    _created_at: Option<IgnoredAny>,
    #[serde(default, rename = "updated_at")]
    _updated_at: Option<IgnoredAny>,
    #[serde(default, rename = "deleted_at")]
    _deleted_at: Option<IgnoredAny>,
    #[serde(skip)]
    pub set: Object,
}

/// A null is there, too.
fn raw<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(reader).map(Some)
}

impl Fields {
    /// A line of JSON.
    pub fn from_json(line: &[u8]) -> Result<Self, CardError> {
        let first = line.trim_ascii_start().first();
        match input::strict(line) {
            Ok(fields) => Ok(fields),
            // Once more, slowly, so that the field is named.
            Err(_) => Err(match input::exact_json::<Self>(line) {
                Ok(_) => CardError::Json(NOT_JSON.to_owned()),
                Err(InputError::Json(_)) => CardError::Json(NOT_JSON.to_owned()),
                Err(_) if first != Some(&b'{') => CardError::field("", "A row is a JSON object, alone on its line."),
                Err(error) => error.into(),
            }),
        }
    }

    /// Everything that is wrong, at once.
    pub fn check(self, line: i64, terms: &Terms) -> Result<Row, CardError> {
        let mut faults = Faults::default();
        let title = faults.required(self.title, "/title");
        if let Some(title) = &title {
            faults.title(title);
        } else if terms.mode == Mode::Create {
            faults.add("/title", "A title is required.");
        }
        let sku = faults.required(self.sku, "/sku");
        match &sku {
            Some(sku) => faults.sku(sku),
            None => faults.add("/sku", "A SKU is required."),
        }
        let status = faults.required(self.status, "/status");
        let mut row = Row {
            line,
            sku: sku.unwrap_or_default(),
            title,
            status,
            attributes: None,
            set: None,
            id: None,
            sources: None,
            ignores_sources: false,
        };
        if let Some(attributes) = self.attributes {
            row.take_attributes(attributes, terms, &mut faults);
        }
        if !self.set.is_empty() {
            faults.attributes(&self.set);
            row.merge(self.set);
        }
        if let Some(id) = self.id.filter(|_| terms.keeps_sources) {
            match serde_json::from_str(id.get()) {
                Ok(id) => row.id = id,
                Err(_) => faults.add("/id", "An id is a UUID."),
            }
        }
        faults.result().map(|()| row)
    }
}

type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

impl Row {
    fn take_attributes(&mut self, attributes: Box<RawValue>, terms: &Terms, faults: &mut Faults) {
        const POINTER: &str = "/attributes";
        let Ok(mut members) = serde_json::from_str::<Members<'_>>(attributes.get()) else {
            return faults.add(POINTER, "Attributes are an object.");
        };
        let sources = members.remove("sources");
        self.ignores_sources = sources.is_some() && !terms.keeps_sources;
        if let Some(sources) = sources.filter(|_| terms.keeps_sources) {
            match Sources::read(sources) {
                Ok(sources) => self.sources = Some(sources),
                Err(broken) => faults.source("/attributes/sources", broken),
            }
        }
        let attributes = match sources {
            None => attributes,
            Some(_) => match serde_json::value::to_raw_value(&members) {
                Ok(rest) => rest,
                Err(error) => return faults.add(POINTER, error.to_string()),
            },
        };
        if let Err(broken) = source::check_json(attributes.get()) {
            faults.add(POINTER, broken.detail);
        }
        self.attributes = Some(attributes);
    }

    /// Single attributes beside all of them become part of these.
    fn merge(&mut self, set: Object) {
        let Some(attributes) = self.attributes.take() else {
            self.set = Some(set);
            return;
        };
        // Both were found to be objects, or the row is refused anyway.
        self.attributes = merged(attributes.get(), &set).ok();
    }

    /// The attributes of a new card, sources and all.
    pub fn new_attributes(&self) -> Result<Box<RawValue>, CardError> {
        with_sources(self.own_attributes()?.get(), self.sources.as_ref())
    }

    /// Those of a new card, sources apart.
    fn own_attributes(&self) -> Result<Cow<'_, RawValue>, CardError> {
        match (&self.attributes, &self.set) {
            (Some(attributes), _) => Ok(Cow::Borrowed(attributes)),
            (None, set) => {
                let set = set.clone().unwrap_or_default();
                Ok(Cow::Owned(merged("{}", &set)?))
            }
        }
    }

    /// The attributes of a card that has `present` (sources apart), when the row says anything of them. Sources that it
    /// doesn't name are for the database to keep.
    pub fn changed_attributes(&self, present: Option<&str>) -> Result<Option<Box<RawValue>>, CardError> {
        let own = match (&self.attributes, &self.set, present) {
            (Some(attributes), ..) => attributes.get().to_owned(),
            (None, Some(set), Some(present)) => merged(present, set)?.get().to_owned(),
            (None, ..) => return Ok(None),
        };
        match &self.sources {
            Some(sources) => with_sources(&own, Some(sources)).map(Some),
            None => Ok(Some(RawValue::from_string(own)?)),
        }
    }

    /// What stands in the history of a new card.
    pub fn history_entry(
        &self,
        job: Uuid,
    ) -> Result<impl Serialize + std::fmt::Debug + Send + Sync + use<'_>, CardError> {
        #[derive(Debug, Serialize)]
        struct NewCardEntry<'a> {
            title: &'a Option<String>,
            sku: &'a str,
            status: Status,
            attributes: Cow<'a, RawValue>,
            job: Uuid,
        }
        let status = self.status.unwrap_or_default();
        Ok(NewCardEntry { title: &self.title, sku: &self.sku, status, attributes: self.own_attributes()?, job })
    }

    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        let raw = |text: &Option<Box<RawValue>>| text.as_ref().map_or(0, |text| text.get().len());
        let sources = self.sources.as_ref().map_or(0, |sources| sources.text.get().len());
        let each = |set: &Object| set.iter().map(|(name, value)| name.len() + value.get().len()).sum();
        let set = self.set.as_ref().map_or(0, each);
        self.sku.len() + self.title.as_ref().map_or(0, String::len) + raw(&self.attributes) + sources + set
    }
}

fn merged(present: &str, set: &Object) -> serde_json::Result<Box<RawValue>> {
    let mut whole = Object::parse(present)?;
    whole.merge(set)?;
    whole.to_raw()
}

/// The text of an object and its sources as one object.
fn with_sources(own: &str, sources: Option<&Sources>) -> Result<Box<RawValue>, CardError> {
    let sources = sources.map_or("{}", |sources| sources.text.get());
    let own = own.trim();
    let inner = own.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    let comma = if inner.trim().is_empty() { "" } else { "," };
    Ok(RawValue::from_string(format!("{{{inner}{comma}\"sources\":{sources}}}"))?)
}

impl Sources {
    fn read(text: &RawValue) -> Result<Self, SourceError> {
        #[derive(Deserialize)]
        struct Entry<'a> {
            kind: Option<Cow<'a, str>>,
            #[serde(borrow)]
            data: Option<&'a RawValue>,
            plugin: Option<Cow<'a, str>>,
        }
        let entries: BTreeMap<String, Entry<'_>> = serde_json::from_str(text.get())
            .map_err(|_| SourceError::invalid("Sources are objects with `kind` and `data`, by source key."))?;
        let count = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        if count > source::SOURCES_PER_CARD {
            return Err(source::too_many_sources());
        }
        source::check_json(text.get())?;
        let mut listed = Vec::with_capacity(entries.len());
        for (key, entry) in entries {
            let Some((prefix, _)) = key.split_once(':') else {
                let detail = format!("{key:?} is not a source key: a plugin's name, a colon and a suffix.");
                return Err(SourceError::invalid(detail));
            };
            let plugin = entry.plugin.as_deref().unwrap_or(prefix).to_owned();
            source::check_key(prefix, &key)?;
            let lacks = |member: &str| SourceError::invalid(format!("{key:?} has no `{member}`."));
            let kind = entry.kind.filter(|kind| !kind.is_empty()).ok_or_else(|| lacks("kind"))?;
            let data = entry.data.ok_or_else(|| lacks("data"))?;
            source::check_data(data.get())
                .map_err(|broken| SourceError { detail: format!("{key:?}: {}", broken.detail), ..broken })?;
            let bytes = i32::try_from(data.get().len()).unwrap_or(i32::MAX);
            listed.push(ListedSource { plugin, kind: kind.into_owned(), bytes, key });
        }
        Ok(Self { text: text.to_owned(), listed })
    }
}

/// Why a row is not written, for the errors of its job.
#[derive(Debug)]
pub struct RowError {
    pub code: &'static Code,
    pub detail: Option<String>,
    pub fields: Vec<FieldError>,
}

impl From<&CardError> for RowError {
    fn from(error: &CardError) -> Self {
        Self { code: error.code(), detail: error.detail(), fields: error.fields().to_vec() }
    }
}

impl RowError {
    pub fn new(code: &'static Code, detail: impl Into<String>) -> Self {
        Self { code, detail: Some(detail.into()), fields: Vec::new() }
    }

    /// The entry of the job's errors.
    pub fn report(&self, line: i64, sku: Option<&str>) -> Value {
        let mut report = json!({"line": line, "code": self.code.name, "detail": self.text()});
        if let Some(sku) = sku {
            report["sku"] = sku.into();
        }
        if !self.fields.is_empty() {
            let each = self.fields.iter().map(|field| json!({"pointer": field.pointer, "detail": field.detail}));
            report["errors"] = each.collect();
        }
        report
    }

    fn text(&self) -> String {
        if self.fields.is_empty() {
            return self.detail.clone().unwrap_or_else(|| self.code.title.to_owned());
        }
        let named = |field: &FieldError| match field.pointer.strip_prefix('/') {
            Some(name) => format!("{name}: {}", field.detail),
            None => field.detail.clone(),
        };
        self.fields.iter().map(named).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: Terms = Terms { mode: Mode::Create, dry_run: false, atomic: false, keeps_sources: false };

    fn row(text: &str, terms: Terms) -> Result<Row, CardError> {
        Fields::from_json(text.as_bytes())?.check(1, &terms)
    }

    fn wrong(text: &str, terms: Terms) -> Vec<String> {
        let error = row(text, terms).unwrap_err();
        if error.fields().is_empty() {
            return vec![error.code().name.to_owned()];
        }
        error.fields().iter().map(|field| field.pointer.clone()).collect()
    }

    #[test]
    fn a_row_keeps_to_the_rules_of_a_card() {
        let kept = row(r#"{"title":"a","sku":"b","attributes":{"n":1.10,"x":{"y":null}},"version":3,"id":7}"#, CREATE);
        let kept = kept.unwrap();
        assert_eq!(kept.attributes.unwrap().get(), r#"{"n":1.10,"x":{"y":null}}"#, "to the last digit");
        assert_eq!(kept.id, None, "an id doesn't count");
        for (text, faults) in [
            ("", "invalid-json"),
            ("{", "invalid-json"),
            (r#"{"title":"a","sku":"b"} x"#, "invalid-json"),
            ("[]", ""),
            ("7", ""),
            (r#"{"sku":"b"}"#, "/title"),
            (r#"{"title":"a"}"#, "/sku"),
            (r#"{"title":"a","sku":" b"}"#, "/sku"),
            (r#"{"title":"a\u0000","sku":"b"}"#, "/title"),
            (r#"{"title":"a","sku":"b","status":"lost"}"#, "/status"),
            (r#"{"title":"a","sku":"b","colour":1}"#, "/colour"),
            (r#"{"title":null,"sku":"b"}"#, "/title"),
            (r#"{"title":"a","sku":"b","attributes":null}"#, "/attributes"),
            (r#"{"title":"a","sku":"b","attributes":[]}"#, "/attributes"),
            (r#"{"title":"a","sku":"b","attributes":{"x":"\u0000"}}"#, "/attributes"),
            (r#"{"title":"a","sku":"b","attributes":{"x":1e999}}"#, "/attributes"),
            (r#"{"title":"a","sku":"b","attributes":{"x":"\ud800"}}"#, "/attributes"),
        ] {
            assert_eq!(wrong(text, CREATE).first().map(String::as_str), Some(faults), "{text}");
        }
        let twice = Fields::from_json(br#"{"title":"a","sku":"b","title":"c"}"#).unwrap_err();
        assert!(twice.fields()[0].detail.contains("Duplicate field `title`"), "{twice:?}");
        assert!(row(r#"{"sku":"b"}"#, Terms { mode: Mode::Upsert, ..CREATE }).is_ok(), "what is there has a title");
    }

    #[test]
    fn sources_count_only_where_they_are_kept() {
        let text = r#"{"title":"a","sku":"b","id":"0190f7a2-1111-7222-8333-444455556666",
            "attributes":{"x":1,"sources":{"p:s":{"kind":"k","data":{"n":12345678901234567890123}}}}}"#;
        let text = text.replace('\n', " ");
        let ignored = row(&text, CREATE).unwrap();
        assert!(ignored.ignores_sources && ignored.sources.is_none());
        assert_eq!(ignored.new_attributes().unwrap().get(), r#"{"x":1,"sources":{}}"#);
        let keep = Terms { keeps_sources: true, ..CREATE };
        let kept = row(&text, keep).unwrap();
        assert!(kept.id.is_some() && !kept.ignores_sources);
        assert!(kept.new_attributes().unwrap().get().contains("12345678901234567890123"));
        let sources = kept.sources.unwrap();
        let listed = &sources.listed[0];
        assert_eq!((listed.plugin.as_str(), listed.kind.as_str(), listed.bytes), ("p", "k", 29));
        for sources in ["[]", r#"{"p":{"kind":"k","data":1}}"#, r#"{"p:s":{"data":1}}"#, r#"{"p:s":{"kind":"k"}}"#] {
            let text = format!(r#"{{"title":"a","sku":"b","attributes":{{"sources":{sources}}}}}"#);
            assert_eq!(wrong(&text, keep), ["/attributes/sources"], "{sources}");
        }
    }

    #[test]
    fn sources_over_a_limit_have_their_own_code() {
        let keep = Terms { keeps_sources: true, ..CREATE };
        let code = |title: &str, sources: &str| {
            let text = format!(r#"{{"title":{title},"sku":"b","attributes":{{"sources":{{{sources}}}}}}}"#);
            row(&text, keep).unwrap_err().code().name
        };
        let source = |key: usize, data: &str| format!(r#""p:{key}":{{"kind":"k","data":{data}}}"#);
        let many: Vec<_> = (0..257).map(|key| source(key, "1")).collect();
        let deep = source(1, &format!("{}1{}", "[".repeat(65), "]".repeat(65)));
        let large = source(1, &format!("\"{}\"", "x".repeat(source::DATA_LIMIT)));
        for over in [many.join(","), deep, large] {
            assert_eq!(code("\"a\"", &over), "source-limit-exceeded");
            assert_eq!(code("null", &over), "validation-failed", "of two faults");
        }
    }

    #[test]
    fn single_attributes_leave_the_others_alone() {
        let set = Object::parse(r#"{"size": {"w": 1}}"#).unwrap();
        let fields = Fields { sku: Some(Some("b".into())), set, ..Fields::default() };
        let row = fields.check(1, &Terms { mode: Mode::Upsert, ..CREATE }).unwrap();
        assert_eq!(row.new_attributes().unwrap().get(), r#"{"size":{"w":1},"sources":{}}"#);
        let changed = row.changed_attributes(Some(r#"{"brand":"x","size":{"h":2}}"#)).unwrap().unwrap();
        let changed: Value = serde_json::from_str(changed.get()).unwrap();
        assert_eq!(changed, json!({"brand": "x", "size": {"w": 1, "h": 2}}));
    }
}

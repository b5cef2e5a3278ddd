//! What a client may write of a card, and what it was at an earlier version.

use serde::{Deserialize, de::IgnoredAny};

use super::{
    card::{Card, Status},
    error::CardError,
    patch::Change,
};
use cardinal_base::exact::Object;

/// A card without what only the host writes.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    pub title: String,
    pub sku: String,
    pub status: String,
    /// Without `sources`.
    pub attributes: Object,
}

impl Fields {
    pub fn from_card(card: &Card) -> Result<Self, CardError> {
        let mut attributes = Object::parse(card.attributes.get())?;
        attributes.remove("sources");
        Ok(Self { title: card.title.clone(), sku: card.sku.clone(), status: card.status.clone(), attributes })
    }

    pub fn change(&mut self, change: &Change) -> Result<(), CardError> {
        if let Some(title) = &change.title {
            self.title.clone_from(title);
        }
        if let Some(sku) = &change.sku {
            self.sku.clone_from(sku);
        }
        if let Some(status) = change.status {
            status.name().clone_into(&mut self.status);
        }
        let Some(attributes) = &change.attributes else { return Ok(()) };
        Ok(self.attributes.merge(attributes)?)
    }
}

/// A card's fields as its history tells them: lines come oldest first, and none is kept. Nothing is known before a line
/// that says all fields (its making, an import, an earlier restore); merge patches follow.
#[derive(Debug, Default)]
pub struct Replay(Option<Fields>);

impl Replay {
    pub fn take(&mut self, line: HistoryStep) -> Result<(), CardError> {
        let is_whole = line.is_whole();
        let Sent { title, sku, status, attributes, job, .. } = line.change;
        if is_whole {
            self.0 = Some(Fields { status: Status::default().name().to_owned(), ..Fields::default() });
        }
        let Some(fields) = &mut self.0 else { return Ok(()) };
        fields.title = title.unwrap_or_else(|| std::mem::take(&mut fields.title));
        fields.sku = sku.unwrap_or_else(|| std::mem::take(&mut fields.sku));
        fields.status = status.unwrap_or_else(|| std::mem::take(&mut fields.status));
        match attributes {
            // Its own nulls are values: only those of a patch remove.
            Some(attributes) if is_whole => fields.attributes = attributes,
            Some(attributes) if job.is_some() => fields.attributes.replace_members(&attributes),
            Some(attributes) => fields.attributes.merge(&attributes)?,
            None => {}
        }
        fields.attributes.remove("sources");
        Ok(())
    }

    /// None when no line said all fields.
    pub fn fields(self) -> Option<Fields> {
        self.0
    }
}

/// A line of a card's history: what was done, and what was sent.
#[derive(Debug)]
pub struct HistoryStep {
    pub action: String,
    pub change: Sent,
}

/// The fields that a line of history names.
#[derive(Debug, Default, Deserialize)]
pub struct Sent {
    title: Option<String>,
    sku: Option<String>,
    status: Option<String>,
    attributes: Option<Object>,
    version: Option<IgnoredAny>,
    /// The job that gave many cards an attribute: its value takes the place of the one before, and merges with nothing.
    job: Option<IgnoredAny>,
}

impl HistoryStep {
    /// Whether it says what all fields became, and not what became of some; a restore then names its version, and an
    /// import always does.
    fn is_whole(&self) -> bool {
        let known = self.change.title.is_some() && self.change.sku.is_some();
        known && (["create", "import"].contains(&self.action.as_str()) || self.change.version.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    type Line<'a> = (&'a str, Value);

    fn made() -> Line<'static> {
        let attributes = json!({"x": {"y": null}, "sources": {}});
        ("create", json!({"title": "a", "sku": "1", "status": "draft", "attributes": attributes}))
    }

    fn at(lines: &[Line<'_>]) -> Option<Fields> {
        let mut replay = Replay::default();
        for (action, change) in lines {
            let change = serde_json::from_value(change.clone()).unwrap();
            replay.take(HistoryStep { action: (*action).to_owned(), change }).unwrap();
        }
        replay.fields()
    }

    fn attributes(lines: &[Line<'_>]) -> Value {
        serde_json::from_str(at(lines).unwrap().attributes.to_raw().unwrap().get()).unwrap()
    }

    #[test]
    fn an_earlier_version_is_the_making_and_the_patches_after_it() {
        let lines = [
            made(),
            ("update", json!({"title": "b"})),
            ("update", json!({"attributes": {"x": {"z": 1}, "w": 2}})),
            ("delete", json!({})),
            ("restore", json!({})),
            ("update", json!({"status": "active", "attributes": {"x": {"z": null}}})),
        ];
        let after = |count: usize| at(&lines[..count]).unwrap();
        assert_eq!(attributes(&lines[..1]), json!({"x": {"y": null}}), "a null in a card is a value");
        assert_eq!((after(2).title.as_str(), after(2).sku.as_str()), ("b", "1"));
        assert_eq!(attributes(&lines[..5]), json!({"x": {"y": null, "z": 1}, "w": 2}));
        assert_eq!(attributes(&lines), json!({"x": {"y": null}, "w": 2}));
        assert_eq!((after(5).status.as_str(), after(6).status.as_str()), ("draft", "active"));
    }

    #[test]
    fn an_attribute_of_a_job_takes_the_place_of_the_one_before() {
        let set = ("update", json!({"attributes": {"x": {"z": null}}, "job": "j"}));
        let removed = ("update", json!({"attributes": {"x": null}, "job": "j"}));
        assert_eq!(attributes(&[made(), set.clone()]), json!({"x": {"z": null}}));
        assert_eq!(attributes(&[made(), set, removed]), json!({}));
    }

    #[test]
    fn a_restore_begins_anew_and_a_patch_of_everything_does_not() {
        let all = json!({"title": "p", "sku": "p", "status": "active", "attributes": {"p": 1}});
        let mut restored = all.clone();
        restored["version"] = json!(1);
        assert_eq!(attributes(&[made(), ("update", all.clone())]), json!({"x": {"y": null}, "p": 1}));
        assert_eq!(attributes(&[made(), ("restore", restored)]), json!({"p": 1}));
        assert_eq!(attributes(&[made(), ("import", all.clone())]), json!({"p": 1}));
        assert!(at(&[("update", all)]).is_none());
        assert!(at(&[]).is_none());
    }
}

//! Where in a value the redactor looks.

use std::sync::Arc;

use serde_json::Value;

/// A value with texts that may hold secrets.
pub trait Texts {
    /// Shows every text to `visit`, which may change it.
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String));
}

impl Texts for String {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        visit(self);
    }
}

impl<T: Texts + Clone> Texts for Arc<T> {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        Arc::make_mut(self).each_text(visit);
    }
}

impl Texts for Value {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        match self {
            Value::String(text) => visit(text),
            Value::Array(items) => items.iter_mut().for_each(|item| item.each_text(visit)),
            Value::Object(map) => {
                for value in map.values_mut() {
                    value.each_text(visit);
                }
                let (mut renamed, mut cleaned) = (Vec::new(), String::new());
                for key in map.keys() {
                    cleaned.clone_from(key);
                    visit(&mut cleaned);
                    if cleaned != *key {
                        renamed.push((key.clone(), cleaned.clone()));
                    }
                }
                for (key, cleaned) in renamed {
                    if let Some(value) = map.remove(&key) {
                        map.insert(cleaned, value);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

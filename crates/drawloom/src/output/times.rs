//! Times as people read them: in their own zone, which is named once.

use jiff::tz::{Offset, TimeZone};

use drawloom_contract::time::Timestamp;

/// The user's zone at one moment. All times of an answer use the same offset, so that they can be compared.
#[derive(Debug, Clone)]
pub struct LocalTime {
    now: Timestamp,
    offset: Offset,
    name: String,
}

impl LocalTime {
    /// The zone as it is at `now`.
    pub fn at(now: Timestamp, zone: &TimeZone) -> Self {
        let info = zone.to_offset_info(stamp(now));
        Self { now, offset: info.offset(), name: info.abbreviation().to_owned() }
    }

    /// The zone's name, such as `CET` or `+05:30`.
    pub fn zone(&self) -> &str {
        &self.name
    }

    /// How far the zone is east of UTC, in minutes.
    pub fn offset_minutes(&self) -> i32 {
        self.offset.seconds() / 60
    }

    /// The moment that it was made for.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// A time in a column whose title names the zone: `19:29:04` of today, else `Nov 17 19:29`, else with its year.
    pub fn brief(&self, time: Timestamp) -> String {
        let (time, now) = (self.offset.to_datetime(stamp(time)), self.offset.to_datetime(stamp(self.now)));
        let form = match (time.date() == now.date(), time.year() == now.year()) {
            (true, _) => "%H:%M:%S",
            (false, true) => "%b %-d %H:%M",
            (false, false) => "%Y-%m-%d",
        };
        time.strftime(form).to_string()
    }

    /// A time that stands alone, with its zone: `2026-11-17 19:29:04 CET`.
    pub fn whole(&self, time: Timestamp) -> String {
        format!("{} {}", self.offset.to_datetime(stamp(time)).strftime("%Y-%m-%d %H:%M:%S"), self.name)
    }

    /// The time of day, to the millisecond: `19:29:04.125`.
    pub fn clock(&self, time: Timestamp) -> String {
        self.offset.to_datetime(stamp(time)).strftime("%H:%M:%S.%3f").to_string()
    }

    /// An RFC 3339 time as [`Self::brief`] tells it; any other text as it is.
    pub fn brief_of(&self, text: &str) -> String {
        Self::parse(text).map_or_else(|| text.to_owned(), |time| self.brief(time))
    }

    /// An RFC 3339 time as [`Self::whole`] tells it; any other text as it is.
    pub fn whole_of(&self, text: &str) -> String {
        Self::parse(text).map_or_else(|| text.to_owned(), |time| self.whole(time))
    }

    /// An RFC 3339 time as a timestamp.
    pub fn parse(text: &str) -> Option<Timestamp> {
        text.parse::<jiff::Timestamp>().ok().map(|time| Timestamp::from_millis(time.as_millisecond()))
    }
}

fn stamp(time: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        LocalTime::parse(text).expect("a time")
    }

    #[test]
    fn times_are_in_the_zone_of_the_reader_which_is_named() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let winter = LocalTime::at(time("2026-11-17T18:29:28.125Z"), &zone);
        assert_eq!(winter.zone(), "CET");
        assert_eq!(winter.whole(time("2026-11-17T18:00:00Z")), "2026-11-17 19:00:00 CET");
        assert_eq!(winter.clock(time("2026-11-17T18:00:00.007Z")), "19:00:00.007");
        let seen = ["2026-11-17T05:04:03Z", "2026-11-16T22:59:59Z", "2026-07-01T12:00:00Z", "2025-12-31T22:00:00Z"];
        // In summer the clock says another hour, but the column has one zone.
        assert_eq!(
            seen.map(|text| winter.brief(time(text))),
            ["06:04:03", "Nov 16 23:59", "Jul 1 13:00", "2025-12-31"]
        );
        assert_eq!(LocalTime::at(time("2026-11-17T18:29:28Z"), &TimeZone::UTC).zone(), "UTC");
    }
}

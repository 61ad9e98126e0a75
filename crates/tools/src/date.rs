//! Formats timestamps as calendar dates in UTC, and reads them.
//!
//! References: the proleptic Gregorian calendar; 400 years have 146097 days.

use uext4::Timestamp;

const DAY_SECONDS: i64 = 24 * 3600;
const ERA_DAYS: i64 = 146_097;
/// Days from 1 March of year 0 to 1 January 1970.
const EPOCH_DAYS: i64 = 719_468;

/// `2026-11-21 02:43:40` in UTC.
pub(crate) fn show(time: Timestamp) -> String {
    let (days, second) = (
        time.seconds.div_euclid(DAY_SECONDS),
        time.seconds.rem_euclid(DAY_SECONDS),
    );
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// As [`show`], with nanoseconds.
pub(crate) fn show_exact(time: Timestamp) -> String {
    format!("{}.{:09} UTC", show(time), time.nanoseconds)
}

/// Nanoseconds since 1970, for JSON.
pub(crate) fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

/// Year, month and day of a day counted from 1970-01-01. The year starts in March internally, so
/// that the leap day is its last day.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let era = days.div_euclid(ERA_DAYS);
    let day_of_era = days.rem_euclid(ERA_DAYS);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / (ERA_DAYS - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, month lengths repeat as 31, 30, 31, 30, 31 days: 153 days in five months.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// A time as [`show`] prints it, its day alone, `@` and seconds since 1970, or `now`.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    if text == "now" {
        let now = uext4_sync::Clock::wall(&uext4_sync::RealClock::new());
        return Ok(Timestamp::new(now.seconds, 0));
    }
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds = seconds.parse().map_err(|_| "not a number of seconds")?;
        return Ok(Timestamp::new(seconds, 0));
    }
    let wrong = || "a time is YYYY-MM-DD, YYYY-MM-DD HH:MM:SS (UTC), @SECONDS or now".to_owned();
    let (day, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00:00"));
    let [year, month, date] = three(day, '-').ok_or_else(wrong)?;
    let time = match time.matches(':').count() {
        1 => format!("{time}:00"),
        _ => time.to_owned(),
    };
    let [hour, minute, second] = three(&time, ':').ok_or_else(wrong)?;
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    // A year has 365.2425 days on average; the sum is off by less than a year and a leap day.
    let days = (year - 1970) * ERA_DAYS / 400;
    let mut near = days - 400..days + 400;
    let day = near.find(|day| civil(*day) == (year, month, date));
    match day.filter(|_| is_time) {
        Some(day) => Ok(Timestamp::new(
            day * DAY_SECONDS + hour * 3600 + minute * 60 + second,
            0,
        )),
        None => Err(wrong()),
    }
}

/// Three numbers with up to four digits.
fn three(text: &str, between: char) -> Option<[i64; 3]> {
    let mut numbers = text.split(between).map(|part| {
        let is_number = (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        part.parse().ok().filter(|_| is_number)
    });
    let all = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_they_are_shown() {
        for seconds in [0, 951_782_400, 951_868_799, 15_032_385_535, 253_402_300_799] {
            let text = show(Timestamp::new(seconds, 0));
            assert_eq!(parse(&text), Ok(Timestamp::new(seconds, 0)), "{text}");
        }
        let day = parse("2026-11-21");
        assert_eq!(day, parse("2026-11-21T00:00"));
        assert_eq!(day, parse("@1795219200"));
        for wrong in [
            "",
            "2026",
            "2026-02-30",
            "2026-1-1 24:00",
            "1-2-3-4",
            "@x",
            "yesterday",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dates_over_all_of_ext4() {
        let at = |seconds| show(Timestamp::new(seconds, 0));
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(-1), "1969-12-31 23:59:59");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(at(-2_147_483_648), "1901-12-13 20:45:52");
        assert_eq!(at(15_032_385_535), "2446-05-10 22:38:55");
    }
}

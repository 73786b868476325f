//! Seconds since 1970 as a time of RFC 3339, in UTC.

/// `2009-02-13T23:31:30Z` of 1234567890. Days are counted in eras of 400 years that begin in March, so that the day that leap years
/// add is the last of its year.
pub fn rfc3339(seconds: u64) -> String {
    // The last second of the year 9999: what lies after it RFC 3339 cannot say.
    let seconds = seconds.min(253_402_300_799);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // 719468 days from the first of March of the year 0 to the first of January 1970.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = year + 400 * era + u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

//! Variables that tell programs that there is no network, so that they say so at once instead of
//! trying again for a minute. Only data.

/// What a command without network gets, unless its operator set it. Each makes a program use what
/// it already has and fail with its own message for the rest.
pub(crate) const OFFLINE: [(&str, &str); 10] = [
    ("CARGO_NET_OFFLINE", "true"),
    ("GOPROXY", "off"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_NO_INPUT", "1"),
    ("PIP_RETRIES", "0"),
    ("UV_OFFLINE", "1"),
    ("npm_config_audit", "false"),
    ("npm_config_fetch_retries", "0"),
    ("npm_config_offline", "true"),
    ("npm_config_update_notifier", "false"),
];

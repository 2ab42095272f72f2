"""SD-JWT, RFC 9901, compact form. One file for each part of the standard; knows no card."""

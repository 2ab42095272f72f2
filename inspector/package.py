"""Generated files of the JavaScript package: rules, and data of the core."""

import json

from inspector.data import package_data, rule_catalogue

RULES = "packages/verifier/src/rules.js"
DATA = "packages/verifier/src/data.js"
_ORIGIN = "of the Python library. Written by `python -m pages`: change them there."
_TYPES = """\
/** @typedef {(string | number | null)[][]} Paths */
/**
 * @typedef {object} ProfileData
 * @property {string} name
 * @property {string[]} accepted_types
 * @property {string[]} accepted_vcts
 * @property {string[]} required
 * @property {string[]} also_clear
 */
/**
 * @typedef {object} FormatData
 * @property {string} name
 * @property {string} family
 * @property {string[]} members those that are also the name of a group
 * @property {Paths} together
 * @property {Record<string, Paths>} groups
 * @property {Record<string, Paths>} facts
 */
"""
_TYPE_OF = {
    "profiles": "Record<string, ProfileData>",
    "formats": "FormatData[]",
    "usual_formats": "Record<string, string>",
}


def rules_script() -> str:
    """Write the catalogue as an ECMAScript module, which is also the type of rule ids."""
    rules = "".join(f"  {_json(rule)}: {_json(about)},\n" for rule, about in rule_catalogue().items())
    return f"/** The rule catalogue {_ORIGIN} */\nexport const RULES = {{\n{rules}}};\n"


def data_script() -> str:
    """Write the data as an ECMAScript module."""
    members = "".join(f"  {name}: {_typed(name, value)},\n" for name, value in package_data().items())
    return f"// Limits, algorithms and card formats {_ORIGIN}\n\n{_TYPES}\nexport const DATA = {{\n{members}}};\n"


def _typed(name: str, value: object) -> str:
    text = _json(value)
    return f"/** @type {{{_TYPE_OF[name]}}} */ ({text})" if name in _TYPE_OF else text


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(", ", ": "), ensure_ascii=False)

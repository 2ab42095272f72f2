"""SD-JWT, RFC 9901, in all its forms.

One file for each part of the standard; knows no card.
"""

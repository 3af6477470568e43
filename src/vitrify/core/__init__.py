"""The nouns: frozen values, the protocols of the extension points, the catalog and the error tree."""

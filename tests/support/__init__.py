"""What tests of several tiers share: real servers, doubles and builders."""

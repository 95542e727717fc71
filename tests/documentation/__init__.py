"""Every block of code in README and docs is run, and what it shows is what comes."""

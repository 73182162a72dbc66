"""Settings, the home folder and where shipped files lie."""

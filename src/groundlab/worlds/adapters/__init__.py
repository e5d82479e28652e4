"""Other people's environments behind our interface: one small file each, imported when it is used."""

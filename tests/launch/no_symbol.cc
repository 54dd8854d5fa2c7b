// A shared object that is not colibri's.
int colibri_tests_no_symbol() { return 0; }

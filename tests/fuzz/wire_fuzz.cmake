# The wire parsers under whatever main() the fuzzing folder gives: libFuzzer's, or one that replays
# corpus/wire.
set(COLIBRI_WIRE_FUZZ_SOURCES wire_fuzz.cc)
set(COLIBRI_WIRE_FUZZ_LINK colibri_transport)

# Tests of the tokenizer; tests/model/CMakeLists.txt includes this file.
colibri_test(tokenizer_test unit
  SOURCES tokenizer_test.cc tokenizer_parts_test.cc detokenizer_test.cc
  LINK colibri_model)
colibri_test(tokenizer_oracle_test unit
  SOURCES tokenizer_oracle_test.cc
  LINK colibri_model nlohmann_json::nlohmann_json)

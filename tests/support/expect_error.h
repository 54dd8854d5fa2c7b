// EXPECT_ERROR(statement, kInput, "part of the message"): the statement throws an Error of that
// kind whose message holds the text.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

#define EXPECT_ERROR(statement, kind_name, part)                                \
  try {                                                                         \
    statement;                                                                  \
    ADD_FAILURE() << "no error, want one that says: " << (part);                \
  } catch (const ::colibri::Error& expected_error) {                            \
    EXPECT_EQ(expected_error.kind(), ::colibri::ErrorKind::kind_name);          \
    EXPECT_NE(std::string(expected_error.what()).find(part), std::string::npos) \
        << "got:  " << expected_error.what() << "\nwant: " << (part);           \
  }                                                                             \
  static_assert(true)

# An object compiled for one instruction set may define one global symbol, the getter of its table,
# and no weak one: a weak symbol compiled for AVX-512 could be the copy the linker keeps, and end the
# program on a processor without it. Wants NM and OBJECTS (a list).
set(num_checked 0)
foreach(object IN LISTS OBJECTS)
  if(NOT object MATCHES "isa_(portable|avx2|avx512)\\.cc")
    continue()
  endif()
  set(isa ${CMAKE_MATCH_1})
  execute_process(COMMAND ${NM} -C --defined-only ${object} OUTPUT_VARIABLE symbols
    COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" symbols "${symbols}")
  set(shared "")
  foreach(symbol IN LISTS symbols)
    # Lower case letters are local symbols, except u, v and w.
    if(symbol MATCHES "^[0-9a-f]+ [A-Zuvw] " AND NOT symbol MATCHES " T colibri::${isa}_kernels\\(\\)$")
      list(APPEND shared "${symbol}")
    endif()
  endforeach()
  if(shared)
    list(JOIN shared "\n  " shared)
    message(FATAL_ERROR "${object} defines symbols that other objects could be linked to:\n  ${shared}")
  endif()
  math(EXPR num_checked "${num_checked} + 1")
endforeach()
if(NOT num_checked EQUAL 3)
  message(FATAL_ERROR "checked ${num_checked} objects, want 3: portable, avx2, avx512")
endif()

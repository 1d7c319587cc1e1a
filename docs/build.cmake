# What the target `docs` does, run from the repository's root: the API's reference, the book, links.
set(html build/docs/html)
file(REMOVE_RECURSE ${html} build/docs/doctrees)

if(EXISTS build/simt/bin/ladder)
  execute_process(COMMAND ${PYTHON3} docs/players.py RESULT_VARIABLE status)
  if(status)
    message(FATAL_ERROR "The player's pages cannot be made; see above.")
  endif()
endif()

execute_process(COMMAND ${DOXYGEN} Doxyfile RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "Doxygen found the errors above (status ${status}).")
endif()

execute_process(COMMAND ${SPHINX} -q -W --keep-going -c docs/site -d build/docs/doctrees . ${html}
                RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "Sphinx found the errors above (status ${status}).")
endif()

file(RENAME build/api ${html}/api)

execute_process(COMMAND ${PYTHON3} docs/check_links.py ${html} RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "There are broken links; see above.")
endif()

# tidemark - continuous aggregation for PostgreSQL
#
#   make && make install     build and install, as PGXS does it (PG_CONFIG=...)
#   make installcheck        test the installed extension on a running server;
#                            TEMP=1: on servers of its own
#   make check               install what is missing, build, test everything
#                            on servers of its own, touch nothing else
#                            (SUITES=, TESTS=: see test/check)
#   make lint                the source checks alone
#   make check-matrix        the same on other majors, in Debian trees
#   make demo                the main job, shown and proved (KEEP=1, DURATION=)
#   make bench               measure (ROWS=, see test/bench)
#   make sanitize            regression tests under ASan and UBSan
#   make mutants             are the tests good enough? (MUTANTS=)
#   make scan                static analysers

OWN_GOALS = check lint check-matrix demo bench mutants sanitize scan

# Those install what is missing, so they must do without PGXS; and PGXS has a
# `check` of its own, which only says that it is not supported.
ifneq ($(filter-out $(OWN_GOALS),$(or $(MAKECMDGOALS),all)),)

# as seen from the Makefile, so that VPATH builds work
here := $(dir $(lastword $(MAKEFILE_LIST)))
in_tree = $(patsubst $(here)%,%,$(sort $(wildcard $(here)$(1))))

EXTENSION = tidemark
MODULE_big = tidemark
OBJS = $(patsubst %.c,%.o,$(call in_tree,src/*.c))
DATA = $(call in_tree,sql/tidemark--*.sql)
PGFILEDESC = "tidemark - continuous aggregation"

# where tests write
TESTOUT ?= $(CURDIR)
# not empty: tests start servers of their own, configured by REGRESS_CONF
TEMP ?=
REGRESS_CONF ?= $(srcdir)/test/preload.conf

REGRESS = $(filter-out tidemark--%,$(patsubst sql/%.sql,%,$(call in_tree,sql/*.sql)))
REGRESS_OPTS = --inputdir=$(srcdir) --outputdir=$(TESTOUT) \
	--load-extension=tidemark
ISOLATION = $(patsubst test/isolation/specs/%.spec,%,$(call in_tree,test/isolation/specs/*.spec))
ISOLATION_OPTS = --inputdir=$(srcdir)/test/isolation \
	--outputdir=$(TESTOUT)/output_iso --load-extension=tidemark
ifneq ($(TEMP),)
REGRESS_OPTS += --temp-instance=$(TESTOUT)/tmp_regress \
	--temp-config=$(REGRESS_CONF)
ISOLATION_OPTS += --temp-instance=$(TESTOUT)/tmp_check_iso \
	--temp-config=$(REGRESS_CONF)
endif
ifneq ($(call in_tree,test/t/*.pl),)
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl
endif
EXTRA_CLEAN = tmp_regress

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error $(PG_CONFIG) not found: install postgresql-server-dev, or set PG_CONFIG)
endif
include $(PGXS)

# PGXS does not follow includes
$(OBJS): $(addprefix $(here),$(call in_tree,src/*.h))
ifdef VPATH
$(shell mkdir -p src)
endif

endif

.PHONY: $(OWN_GOALS)
ifneq ($(filter check,$(MAKECMDGOALS)),)
check:
	@test/check
endif
lint:
	@SUITES=lint test/check
check-matrix:
	@test/matrix
demo:
	@test/demo
bench:
	@test/bench
mutants:
	@test/mutants
sanitize:
	@SANITIZE=1 SUITES="$${SUITES:-regress isolation tap}" test/check
scan:
	@SUITES=scan test/check

# The SQL of README.md runs, from top to bottom, in one database.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @blocks = slurp_file('README.md') =~ /^```sql\n(.*?)^```/msg;
my $node = PostgreSQL::Test::Cluster->new('main');

$node->init;
$node->append_conf('postgresql.conf', qq(
shared_preload_libraries = 'tidemark'
max_worker_processes = 16
));
$node->start;

cmp_ok(scalar @blocks, '>', 10, 'README.md has examples');
foreach my $block (@blocks)
{
	my ($name) = grep { /\S/ } split /\n/, $block;
	my ($status, $stdout, $stderr) =
	  $node->psql('postgres', $block, on_error_stop => 1);

	is($status, 0, $name) or diag($stderr);
	is($stdout, '', 'view and query are the same')
	  if $block =~ /^EXCEPT ALL/m;
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM tidemark.failures'),
	'0', 'no view has failed');

$node->stop;
done_testing();

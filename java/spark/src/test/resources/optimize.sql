CALL terrace.system.optimize(table => '/data/people', sort_by => array('age'));

CALL terrace.system.vacuum(table => '/data/people', age_hours => 168);

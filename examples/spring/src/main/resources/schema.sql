create table if not exists orders (id varchar primary key, state varchar not null);
create table if not exists stock (item varchar primary key, left_over int not null);
create table if not exists sold (item varchar, buyer varchar, fence bigint);
